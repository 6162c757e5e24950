"""Objectives over several sources in the PyTorch learner: each term sees its own rows, and is averaged over them alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ludus.config import AdvantageConfig, AlgorithmConfig, MuConfig, OptimizerConfig, TermConfig, TrainConfig
from ludus.lm.language_models import LanguageModel
from ludus.records import Experiences
from ludus.train.torch_learner import TorchLearner

from .conftest import mixed_experiences

GRPO = TermConfig(loss="ppo_clip", share="rest")
SFT = TermConfig(loss="sft", source="expert", share="mu")
DPO = TermConfig(loss="dpo", source="pairs", options={"beta": 0.5})
AGGREGATIONS: list[dict[str, Any]] = [
    {"aggregation": "token_mean"},
    {"aggregation": "sequence_mean_token_mean"},
    {"aggregation": "sequence_mean_token_sum"},
    {"aggregation": "constant_norm", "aggregation_length": 9},
]


def learner(model: LanguageModel, *terms: TermConfig, mu: float | None = 0.3, **train: Any) -> TorchLearner:
    advantage = train.pop("advantage", AdvantageConfig(kind="group", normalise=False))
    algorithm = AlgorithmConfig(
        advantage=advantage, objective=terms, mu=None if mu is None else MuConfig(peak=mu), **train.pop("algorithm", {})
    )
    optimizer = OptimizerConfig(kind="sgd", learning_rate=1.0, schedule="constant", max_grad_norm=None)
    return TorchLearner(
        model,
        TrainConfig(algorithm=algorithm, optimizer=optimizer, **{"minibatch": 99, "epochs": 1, **train}),
        lora=None,
    )


def gradient(of: TorchLearner, batch: Experiences, progress: float = 0.0) -> tuple[np.ndarray, dict[str, float]]:
    """A step of plain descent at rate 1 is the gradient."""
    state = of.init(0)
    before = state.vector.clone()
    state, metrics = of.train_batch(state, batch, seed=1, progress=progress)
    return (before - state.vector).numpy(), metrics


def only(batch: Experiences, source: str) -> Experiences:
    return batch.take(np.flatnonzero(batch.sequences["source"] == source))


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("train", AGGREGATIONS, ids=lambda train: train["aggregation"])
def test_mix_is_its_two_parts_each_averaged_over_its_own_rows(tiny: LanguageModel, train: Any) -> None:
    batch = mixed_experiences(8, 4)
    mixed, metrics = gradient(learner(tiny, GRPO, SFT, mu=0.3, **train), batch)
    policy, of_policy = gradient(learner(tiny, TermConfig(loss="ppo_clip"), mu=None, **train), only(batch, "on_policy"))
    imitation, of_imitation = gradient(
        learner(tiny, TermConfig(loss="sft", source="expert"), mu=None, **train), only(batch, "expert")
    )
    assert np.abs(policy).max() > 0
    assert_close(mixed, 0.7 * policy + 0.3 * imitation)
    assert metrics["ppo_clip"] == pytest.approx(of_policy["ppo_clip"], rel=1e-4)
    assert metrics["sft"] == pytest.approx(of_imitation["sft"], rel=1e-4)
    assert metrics["loss"] == pytest.approx(0.7 * metrics["ppo_clip"] + 0.3 * metrics["sft"], rel=1e-4)


@pytest.mark.parametrize("train", AGGREGATIONS, ids=lambda train: train["aggregation"])
def test_how_a_mixed_minibatch_is_cut_does_not_matter(tiny: LanguageModel, train: Any) -> None:
    """Not even where a part has none of one source, and never between the two answers of a pair."""
    batch = mixed_experiences(7, 3, 3, turns=2)
    terms = (GRPO, SFT, DPO, TermConfig(loss="kl", source="any", weight=0.1, options={"reference": "base"}))
    whole, cut, single = (
        gradient(learner(tiny, *terms, tokens_per_micro_batch=tokens, **train), batch) for tokens in (10_000, 60, 1)
    )
    assert_close(cut[0], whole[0])
    assert_close(single[0], whole[0])
    for name, value in whole[1].items():
        assert single[1][name] == pytest.approx(value, rel=1e-3, abs=1e-5), name


def test_minibatches_of_a_batch_are_each_averaged_over_their_own_rows(tiny: LanguageModel) -> None:
    """One expert row in two minibatches: the mean of the term is over the step that had it."""
    batch = mixed_experiences(7, 1)
    _, metrics = gradient(learner(tiny, GRPO, SFT, minibatch=4), batch)
    _, alone = gradient(learner(tiny, TermConfig(loss="sft", source="expert")), only(batch, "expert"))
    assert metrics["optimizer_steps"] == 2
    assert metrics["sft"] == pytest.approx(alone["sft"], rel=0.2)  # the weights have moved by one step at most


def test_what_experts_rows_hold_besides_tokens_does_not_matter(tiny: LanguageModel) -> None:
    batch = mixed_experiences(8, 4)
    others = (batch.sequences["source"] != "on_policy")[batch.sequence_of_step()]
    poisoned = {name: batch.steps[name].copy() for name in ("logp", "value", "reward")}
    for column in poisoned.values():
        column[others] = np.nan
    advantage = AdvantageConfig(kind="monte_carlo", normalise=True, normalise_batch=True)
    of = learner(tiny, GRPO, SFT, advantage=advantage)
    clean, _ = gradient(of, batch)
    found, metrics = gradient(of, batch.replace(steps=poisoned))
    np.testing.assert_array_equal(found, clean)
    assert metrics["skipped"] == 0
    assert all(np.isfinite(value) for value in metrics.values())


@pytest.mark.parametrize("kind", ["group", "monte_carlo", "gae"])
@pytest.mark.parametrize(
    "how", [{"normalise": True}, {"normalise": False, "normalise_batch": True}], ids=["normalise", "normalise_batch"]
)
def test_advantages_and_their_scale_come_from_usual_rows_alone(tiny: LanguageModel, kind: Any, how: Any) -> None:
    batch = mixed_experiences(8, 6, 2)
    of = learner(tiny, TermConfig(loss="reinforce"), mu=None, advantage=AdvantageConfig(kind=kind, **how))
    mixed, metrics = gradient(of, batch)
    alone, expected = gradient(of, only(batch, "on_policy"))
    assert_close(mixed, alone)
    for name in ("advantage_std", "target_mean", "entropy", "approx_kl", "mismatch_kl", "effective_sample_size"):
        assert metrics[name] == pytest.approx(expected[name], rel=1e-4, abs=1e-6), name


def test_a_term_without_rows_changes_nothing_and_reports_nothing(tiny: LanguageModel) -> None:
    batch = only(mixed_experiences(8, 4), "on_policy")
    found, metrics = gradient(learner(tiny, GRPO, SFT, mu=0.25), batch)
    alone, _ = gradient(learner(tiny, TermConfig(loss="ppo_clip", weight=0.75), mu=None), batch)
    assert_close(found, alone)
    assert "sft" not in metrics
    assert "ppo_clip" in metrics


def test_experts_alone_can_be_learnt_from(tiny: LanguageModel) -> None:
    found, metrics = gradient(learner(tiny, SFT, mu=1.0), only(mixed_experiences(2, 4), "expert"))
    assert np.abs(found).max() > 0
    assert "entropy" not in metrics
    assert "mismatch_kl" not in metrics
    assert metrics["tokens"] > 0


def test_mu_moves_with_the_run(tiny: LanguageModel) -> None:
    batch = mixed_experiences(8, 4)
    config = MuConfig(peak=0.8, valley=0.2, warmup_fraction=0.2, decay_fraction=0.4)
    algorithm = AlgorithmConfig(
        advantage=AdvantageConfig(kind="group", normalise=False), objective=(GRPO, SFT), mu=config
    )
    of = TorchLearner(tiny, TrainConfig(minibatch=99, epochs=1, algorithm=algorithm), lora=None)
    for progress, mu in ((0.0, 0.0), (0.1, 0.4), (0.2, 0.8), (0.4, 0.5), (0.6, 0.2), (1.0, 0.2)):
        _, metrics = of.train_batch(of.init(0), batch, seed=1, progress=progress)
        assert metrics["mu"] == pytest.approx(mu)
        expected = (1 - mu) * metrics["ppo_clip"] + mu * metrics["sft"]
        assert metrics["loss"] == pytest.approx(expected, rel=1e-4, abs=1e-6)
