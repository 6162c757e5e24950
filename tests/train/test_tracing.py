"""Traces say what the trainer thought of a batch before the update, and change nothing that is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ludus.config import AdvantageConfig, AlgorithmConfig, MlpConfig, OptimizerConfig, TermConfig, TrainConfig
from ludus.config.sections.train_presets import ALGORITHMS
from ludus.records import Experiences
from ludus.storage.traces import TracedSequence, decode_traces
from ludus.train.advantages import compute
from ludus.train.tracing import Tracer, make_tracer

from .conftest import mixed_experiences, token_experiences

if TYPE_CHECKING:
    from ludus.lm.language_models import LanguageModel
    from ludus.train.jax_learner import JaxLearner
    from ludus.train.torch_learner import TorchLearner


def board_rows(lengths: tuple[int, ...] = (5, 90, 7)) -> Experiences:
    random, count = np.random.default_rng(0), sum(lengths)
    steps: dict[str, Any] = {
        "observation": random.normal(size=(count, 4)).astype(np.float32),
        "action": np.zeros(count, np.int32),
        "mask": random.random(count) < 0.8,
        "version": np.full(count, 3, np.int32),
        "logp": -random.random(count).astype(np.float32),
        "value": random.normal(size=count).astype(np.float32),
        "reward": random.normal(size=count).astype(np.float32),
    }
    names = np.array([f"e{row}" for row in range(len(lengths))], object)
    sequences = {"episode": names, "seat": np.zeros(len(lengths), np.int64), "truncated": np.zeros(len(lengths), bool)}
    return Experiences(sequences=sequences, offsets=np.cumsum([0, *lengths]).astype(np.int64), steps=steps)


def network_learner() -> JaxLearner:
    from ludus.policies.networks import PolicyNetwork
    from ludus.train.jax_learner import JaxLearner

    terms = (TermConfig(loss="ppo_clip"), TermConfig(loss="value"))
    algorithm = AlgorithmConfig(advantage=AdvantageConfig(kind="gae"), objective=terms)
    network = PolicyNetwork(MlpConfig(hidden=(8,)), observation_shape=(4,), actions=3)
    return JaxLearner(network, TrainConfig(algorithm=algorithm, minibatch=16, epochs=1))


def language_learner(model: LanguageModel, preset: str = "ppo") -> TorchLearner:
    from ludus.train.torch_learner import TorchLearner

    parts = ALGORITHMS[preset]
    algorithm = AlgorithmConfig(preset=preset, advantage=parts.advantage, objective=parts.objective, mu=parts.mu)
    optimizer = OptimizerConfig(learning_rate=1e-2, schedule="constant")
    return TorchLearner(model, TrainConfig(algorithm=algorithm, minibatch=8, optimizer=optimizer), lora=None)


def updated(learner: Any, rows: Experiences, count: int, seed: int = 4) -> tuple[Any, list[TracedSequence]]:
    tracer = make_tracer(learner, count)
    if tracer is not None:
        tracer.begin(seed)
    state, _ = learner.train_batch(learner.init(0), rows, seed=seed, progress=0.0)
    payload = tracer.end() if tracer is not None else b""
    return learner.state_tensors(state), decode_traces(payload) if payload else []


def assert_same(left: Any, right: Any) -> None:
    for part in ("weights", "optimizer"):
        for name, tensor in left[part].items():
            np.testing.assert_array_equal(tensor, right[part][name], err_msg=name)


def test_a_network_says_what_it_thinks_of_a_few_sequences() -> None:
    rows, learner = board_rows(), network_learner()
    state, traces = updated(learner, rows, 2)
    assert_same(state, updated(network_learner(), rows, 0)[0])
    assert [each.episode for each in traces] == ["e1", "e2"], "from the seed on: 4 % 3"
    advantage, target = compute(rows, AdvantageConfig(kind="gae"))
    found = traces[0].arrays
    np.testing.assert_array_equal(found["advantage"], advantage[5:95])
    np.testing.assert_array_equal(found["target"], target[5:95])
    np.testing.assert_array_equal(found["logp"], rows.steps["logp"][5:95])
    logits, _ = learner.network.apply(learner.init(0).params, rows.steps["observation"][5:95], None)
    shifted = np.asarray(logits) - np.asarray(logits).max(axis=1, keepdims=True)
    expected = shifted[:, 0] - np.log(np.exp(shifted).sum(axis=1))
    np.testing.assert_allclose(found["trainer_logp"], np.where(found["mask"], expected, 0.0), atol=1e-5)


def test_a_language_model_says_what_it_thinks_of_a_few_sequences(tiny: LanguageModel) -> None:
    rows = token_experiences(rows=8)
    state, traces = updated(language_learner(tiny), rows, 3, seed=2)
    assert_same(state, updated(language_learner(tiny), rows, 0, seed=2)[0])
    assert [each.episode for each in traces] == ["e2", "e3", "e4"]
    found = traces[0].arrays
    assert found.keys() >= {"action", "mask", "logp", "trainer_logp", "advantage", "target", "value", "version"}
    assert np.all(found["trainer_logp"][found["mask"]] < 0)
    assert not found["trainer_logp"][~found["mask"]].any()
    assert found["advantage"].any()


def test_only_what_the_policy_did_itself_is_traced(tiny: LanguageModel) -> None:
    rows = mixed_experiences(on_policy=8, expert=4)
    source = dict(zip(rows.sequences["episode"].tolist(), rows.sequences["source"].tolist(), strict=True))
    _, traces = updated(language_learner(tiny, "chord"), rows, 100)
    assert len(traces) == 8
    assert {source[each.episode] for each in traces} == {"on_policy"}


def test_the_reference_is_there_where_there_is_one(tiny: LanguageModel) -> None:
    _, traces = updated(language_learner(tiny, "grpo"), token_experiences(rows=8), 1)
    has_reference = any(term.options.get("reference") == "base" for term in ALGORITHMS["grpo"].objective or ())
    assert ("ref_logp" in traces[0].arrays) == has_reference


def test_an_update_without_rows_of_the_policy_has_no_traces() -> None:
    tracer = Tracer(4)
    tracer.begin(0)
    assert tracer.end() == b""
