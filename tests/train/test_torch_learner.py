"""The PyTorch learner: what counts, what does not, what is skipped, that it resumes exactly, and that it learns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from ludus.config import (
    ALGORITHMS,
    AdvantageConfig,
    AlgorithmConfig,
    KlRewardConfig,
    LoraConfig,
    OptimizerConfig,
    TermConfig,
    TrainConfig,
)
from ludus.errors import ConfigError, CorruptRecord, TrainError
from ludus.lm.language_models import LanguageModel
from ludus.records import Experiences
from ludus.train.losses import kl
from ludus.train.torch_learner import TorchLearner
from ludus.train.torch_state import TorchState

from .conftest import mixed_experiences, token_experiences

LORA = LoraConfig(rank=4, alpha=8.0)
WAYS = [pytest.param(LORA, id="lora"), pytest.param(None, id="full")]


def config(preset: str = "ppo", **train: Any) -> TrainConfig:
    parts = ALGORITHMS[preset]
    own = {"preset": preset, "advantage": parts.advantage, "objective": parts.objective, "mu": parts.mu}
    chosen = {name: train.pop(name) for name in (*own, "kl_stop", "kl_reward") if name in train}
    algorithm = AlgorithmConfig(**{**own, **chosen})
    optimizer = OptimizerConfig(learning_rate=1e-2, schedule="constant")
    settings = {"minibatch": 4, "epochs": min(parts.epochs, 2), "optimizer": optimizer, **train}
    return TrainConfig(algorithm=algorithm, **settings)


def learner(model: LanguageModel, preset: str = "ppo", *, lora: LoraConfig | None = LORA, **train: Any) -> TorchLearner:
    temperature = train.pop("temperature", 1.0)
    return TorchLearner(model, config(preset, **train), lora=lora, temperature=temperature)


def trained(
    of: TorchLearner, batch: Experiences | None = None, state: TorchState | None = None, seed: int = 1
) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, float]]:
    state, metrics = of.train_batch(state or of.init(0), batch or token_experiences(), seed=seed, progress=0.0)
    return of.state_tensors(state), metrics


def assert_same(left: Any, right: Any) -> None:
    for part in ("weights", "optimizer"):
        assert left[part].keys() == right[part].keys()
        for name, tensor in left[part].items():
            np.testing.assert_array_equal(tensor, right[part][name], err_msg=name)


def assert_close(left: Any, right: Any, atol: float) -> None:
    for name, tensor in left["weights"].items():
        np.testing.assert_allclose(tensor, right["weights"][name], rtol=0, atol=atol, err_msg=name)


# -- what counts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lora", WAYS)
@pytest.mark.parametrize(
    "train",
    [
        {},
        {"aggregation": "sequence_mean_token_mean"},
        {"aggregation": "constant_norm", "aggregation_length": 9},
    ],
    ids=["token_mean", "sequence_mean", "constant_norm"],
)
def test_how_a_minibatch_is_cut_does_not_matter(tiny: LanguageModel, lora: LoraConfig | None, train: Any) -> None:
    sgd = OptimizerConfig(kind="sgd", learning_rate=0.1, schedule="constant")
    batch = token_experiences(turns=2)
    whole, cut, single = (
        trained(learner(tiny, lora=lora, tokens_per_micro_batch=tokens, optimizer=sgd, **train), batch)
        for tokens in (10_000, 60, 1)
    )
    assert_close(whole[0], cut[0], 1e-5)
    assert_close(whole[0], single[0], 1e-5)
    for name, value in whole[1].items():
        assert single[1][name] == pytest.approx(value, rel=1e-3, abs=1e-5), name


def test_what_stands_at_tokens_of_others_does_not_matter(tiny: LanguageModel) -> None:
    of, batch = learner(tiny), token_experiences(turns=2)
    others = ~batch.steps["mask"]
    poisoned = {name: batch.steps[name].copy() for name in ("logp", "value")}
    for column in poisoned.values():
        column[others] = np.nan
    found, metrics = trained(of, batch.replace(steps=poisoned))
    assert_same(found, trained(of, batch)[0])
    assert metrics["skipped"] == 0.0


def test_what_follows_the_last_choice_does_not_matter(tiny: LanguageModel) -> None:
    """The environment's last word is read by nobody: no gradient, no loss."""
    batch = token_experiences(rows=2)
    changed = batch.steps["action"].copy()
    mask = batch.steps["mask"].copy()
    ends = batch.offsets[1:] - 1
    mask[ends] = False
    changed[ends] = 7
    one, other = (
        trained(learner(tiny), batch.replace(steps={"mask": mask, "action": action}))[0]
        for action in (batch.steps["action"], changed)
    )
    assert_same(one, other)


def test_sequences_without_a_choice_are_passed_over(tiny: LanguageModel) -> None:
    batch = token_experiences(rows=8)
    mask = batch.steps["mask"].copy()
    mask[batch.offsets[2] : batch.offsets[4]] = False
    kept = batch.take([0, 1, 4, 5, 6, 7])
    with_empty = trained(learner(tiny), batch.replace(steps={"mask": mask}))
    assert_same(with_empty[0], trained(learner(tiny), kept)[0])
    assert with_empty[1]["rows"] == 6


def test_a_batch_without_any_choice_leaves_everything_as_it_was(tiny: LanguageModel) -> None:
    of, batch = learner(tiny), token_experiences(rows=2)
    nothing = batch.replace(steps={"mask": np.zeros_like(batch.steps["mask"])})
    found, metrics = trained(of, nothing)
    assert_same(found, of.state_tensors(of.init(0)))
    assert metrics["tokens"] == 0
    assert all(np.isfinite(value) for value in metrics.values())


def test_a_slice_of_a_larger_batch_trains_like_itself(tiny: LanguageModel) -> None:
    whole = token_experiences(rows=8)
    part = Experiences(
        sequences={name: column[2:6] for name, column in whole.sequences.items()},
        offsets=whole.offsets[2:7],
        steps=whole.steps,
    )
    assert_same(trained(learner(tiny), part)[0], trained(learner(tiny), whole.take([2, 3, 4, 5]))[0])


def test_tokens_are_scored_at_the_temperature_they_were_sampled_at(tiny: LanguageModel) -> None:
    batch = token_experiences(rows=1)
    tokens = torch.from_numpy(batch.steps["action"].astype(np.int64))[None]
    chosen = np.flatnonzero(batch.steps["mask"])
    log_probs = (tiny.model(tokens).logits[0] / 0.5).log_softmax(-1)
    expected = log_probs[chosen - 1, tokens[0, chosen]]
    found = learner(tiny, temperature=0.5, preset="sft", objective=(TermConfig(loss="sft"),), epochs=1)
    _, metrics = trained(found, batch)
    assert metrics["sft"] == pytest.approx(-float(expected.mean()), rel=1e-5)
    distribution = torch.distributions.Categorical(logits=log_probs[chosen - 1])
    assert metrics["entropy"] == pytest.approx(float(distribution.entropy().mean()), rel=1e-5)


def test_rows_of_games_with_temperatures_of_their_own_are_scored_at_those(tiny: LanguageModel) -> None:
    """The loss of a mixed batch is that of its parts, each at its temperature, weighted by their tokens."""
    batch = token_experiences(rows=6)
    games = np.array(["hot", "cold", "other"] * 2, object)
    batch = batch.replace(sequences={"game": games})
    sft = {"preset": "sft", "objective": (TermConfig(loss="sft"),), "epochs": 1, "minibatch": 6}
    mixed = TorchLearner(tiny, config(**sft), lora=LORA, temperature=1.0, by_game={"hot": 2.0, "cold": 0.5})
    found = trained(mixed, batch)[1]
    total, tokens = 0.0, 0
    for game, temperature in (("hot", 2.0), ("cold", 0.5), ("other", 1.0)):
        part = batch.take(np.flatnonzero(games == game))
        count = int(part.steps["mask"].sum())
        total += count * trained(learner(tiny, temperature=temperature, **sft), part)[1]["sft"]
        tokens += count
    assert found["sft"] == pytest.approx(total / tokens, rel=1e-5)


def test_training_leaves_the_base_model_as_it_was(load_tiny: Callable[..., LanguageModel]) -> None:
    for lora in (LORA, None):
        model = load_tiny()
        before = {name: parameter.clone() for name, parameter in model.model.named_parameters()}
        trained(learner(model, lora=lora))
        for name, parameter in model.model.named_parameters():
            torch.testing.assert_close(parameter, before[name], rtol=0, atol=0)
            assert not parameter.requires_grad


# -- the same again ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lora", WAYS)
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(tiny: LanguageModel, lora: Any) -> None:
    first, again, other = (trained(learner(tiny, lora=lora), seed=seed)[0] for seed in (1, 1, 2))
    assert_same(first, again)
    assert any((first["weights"][name] != other["weights"][name]).any() for name in first["weights"])


@pytest.mark.parametrize("lora", WAYS)
@pytest.mark.parametrize("kind", ["adam", "sgd", "rmsprop"])
def test_a_run_that_was_saved_goes_on_bit_for_bit(tiny: LanguageModel, lora: Any, kind: Any) -> None:
    train = {"lora": lora, "optimizer": OptimizerConfig(kind=kind, learning_rate=1e-2)}
    of = learner(tiny, **train)
    state, _ = of.train_batch(of.init(0), token_experiences(), seed=1, progress=0.1)
    saved = of.state_tensors(state)
    unbroken, _ = of.train_batch(state, token_experiences(seed=5), seed=2, progress=0.2)
    fresh = learner(tiny, **train)
    resumed = fresh.state_from_tensors(saved)
    assert_same(fresh.state_tensors(resumed), saved)
    resumed, _ = fresh.train_batch(resumed, token_experiences(seed=5), seed=2, progress=0.2)
    assert_same(fresh.state_tensors(resumed), of.state_tensors(unbroken))


def test_a_saved_state_does_not_change_with_the_state(tiny: LanguageModel) -> None:
    of = learner(tiny)
    state = of.init(0)
    saved = of.state_tensors(state)
    copies = {name: tensor.copy() for name, tensor in saved["weights"].items()}
    of.train_batch(state, token_experiences(), seed=1, progress=0.0)
    for name, tensor in copies.items():
        np.testing.assert_array_equal(saved["weights"][name], tensor)


def test_weights_have_the_names_that_policies_publish(tiny: LanguageModel) -> None:
    adapters = learner(tiny).state_tensors(learner(tiny).init(0))["weights"]
    assert adapters["base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"].shape == (4, 32)
    assert not adapters["base_model.model.model.layers.1.mlp.down_proj.lora_B.weight"].any()
    assert adapters["value_head.weight"].shape == (1, 32)
    everything = learner(tiny, "reinforce", lora=None)
    weights = everything.state_tensors(everything.init(0))["weights"]
    assert weights.keys() == dict(tiny.model.named_parameters()).keys()


def test_tensors_of_another_model_are_refused_by_name(tiny: LanguageModel) -> None:
    of = learner(tiny)
    tensors = of.state_tensors(of.init(0))
    tensors["weights"]["value_head.weight"] = np.zeros((1, 7), np.float32)
    del tensors["weights"]["value_head.bias"]
    with pytest.raises(CorruptRecord, match=r"value_head\.bias is missing; value_head\.weight is float32\[1, 7\]"):
        of.state_from_tensors(tensors)


# -- what is skipped ---------------------------------------------------------------------------------------------------


def test_a_bad_row_costs_its_own_minibatch_and_is_counted(tiny: LanguageModel) -> None:
    batch = token_experiences(rows=8)
    reward = batch.steps["reward"].copy()
    reward[batch.offsets[3] - 1] = np.nan
    of = learner(tiny, "a2c", advantage=AdvantageConfig(kind="gae"))
    found, metrics = trained(of, batch.replace(steps={"reward": reward}))
    assert metrics["skipped"] == 1.0
    assert metrics["optimizer_steps"] == 1.0
    assert all(np.isfinite(weight).all() for weight in found["weights"].values())
    assert all(np.isfinite(value) for value in metrics.values())


def test_a_batch_of_nothing_but_nan_touches_neither_weights_nor_optimizer(tiny: LanguageModel) -> None:
    of = learner(tiny)
    batch = token_experiences()
    state, _ = of.train_batch(of.init(0), batch, seed=0, progress=0.0)
    before = of.state_tensors(state)
    bad = batch.replace(steps={"logp": np.full_like(batch.steps["logp"], np.nan)})
    state, metrics = of.train_batch(state, bad, seed=0, progress=0.0)
    after = of.state_tensors(state)
    assert metrics["skipped"] == state.skipped == after["optimizer"].pop("skipped") == 4
    before["optimizer"].pop("skipped")
    assert_same(before, after)
    state, _ = of.train_batch(state, batch, seed=0, progress=0.0)
    assert state.skipped == 0


def test_too_many_skipped_steps_in_a_row_stop_the_run(tiny: LanguageModel) -> None:
    of = learner(tiny, max_skipped=6)
    batch = token_experiences()
    bad = batch.replace(steps={"reward": np.full_like(batch.steps["reward"], np.inf)})
    state, _ = of.train_batch(of.init(0), bad, seed=0, progress=0.0)
    with pytest.raises(TrainError, match="last 8 optimizer steps were skipped"):
        of.train_batch(state, bad, seed=0, progress=0.0)


def test_the_kl_bound_ends_the_epochs(tiny: LanguageModel) -> None:
    free = trained(learner(tiny, "ppo", epochs=3))[1]
    assert free["optimizer_steps"] == 6
    found = trained(learner(tiny, "ppo", epochs=3, kl_stop=1e-9))[1]
    assert found["kl_stopped"] == 1.0
    assert found["optimizer_steps"] == 0  # logp of the batch is made up: over the bound at once


# -- terms -------------------------------------------------------------------------------------------------------------


def on_policy(model: LanguageModel, batch: Experiences) -> Experiences:
    """The batch with the log-probabilities that the base model gives."""
    logp = np.zeros(batch.step_count, np.float32)
    for row in range(len(batch)):
        part = slice(int(batch.offsets[row]), int(batch.offsets[row + 1]))
        tokens = torch.from_numpy(batch.steps["action"][part].astype(np.int64))
        log_probs = model.model(tokens[None]).logits[0].log_softmax(-1)
        logp[part][1:] = log_probs[:-1].gather(1, tokens[1:, None])[:, 0].numpy()
    return batch.replace(steps={"logp": logp})


def test_on_policy_nothing_is_apart(tiny: LanguageModel) -> None:
    _, metrics = trained(learner(tiny), on_policy(tiny, token_experiences()))
    assert metrics["mismatch_kl"] == pytest.approx(0.0, abs=1e-6)
    assert metrics["effective_sample_size"] == pytest.approx(1.0, abs=1e-5)
    _, metrics = trained(learner(tiny))
    assert metrics["mismatch_kl"] > 0.01
    assert metrics["effective_sample_size"] < 0.99


@pytest.mark.parametrize("lora", WAYS)
def test_the_kl_to_the_base_is_zero_at_first_and_then_grows(tiny: LanguageModel, lora: Any) -> None:
    terms = (TermConfig(loss="reinforce"), TermConfig(loss="kl", weight=0.1, options={"reference": "base"}))
    of = learner(tiny, "reinforce", lora=lora, objective=terms, minibatch=8)
    state, metrics = of.train_batch(of.init(0), token_experiences(), seed=0, progress=0.0)
    assert metrics["kl"] == pytest.approx(0.0, abs=1e-7)
    _, metrics = of.train_batch(state, token_experiences(), seed=0, progress=0.0)
    assert metrics["kl"] > 1e-6


def test_truncated_importance_weights_compare_the_engine_with_the_weights_at_the_start(tiny: LanguageModel) -> None:
    term = {"importance": "truncate", "importance_high": 1.1}
    batch = token_experiences(seed=3)
    logp = on_policy(tiny, batch).steps["logp"]
    mask = batch.steps["mask"]
    expected = np.minimum(np.exp(logp - batch.steps["logp"])[mask], 1.1).mean()
    for epochs, minibatch in ((1, 8), (2, 8)):  # the first needs no pass of its own
        terms = (TermConfig(loss="ppo_clip", options=term),)
        of = learner(tiny, "grpo", objective=terms, epochs=epochs, minibatch=minibatch)
        _, metrics = trained(of, batch)
        assert metrics["importance_weight"] == pytest.approx(expected, rel=1e-4)
        assert metrics["clip_fraction"] <= 0.5
    assert expected != pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_the_kl_to_the_base_is_taken_from_the_reward(tiny: LanguageModel, estimator: Any) -> None:
    """Of what the policy itself said, token by token, before advantages are made."""
    batch = token_experiences(turns=2)
    reference = on_policy(tiny, batch).steps["logp"]
    estimate = kl(batch.steps["logp"], reference, estimator=estimator).loss
    mask = batch.steps["mask"]
    charged = batch.steps["reward"] - 0.5 * np.where(mask, estimate, 0.0).astype(np.float32)
    plain = trained(learner(tiny, "reinforce"), batch.replace(steps={"reward": charged}))[0]
    paid = KlRewardConfig(estimator=estimator, weight=0.5)
    found, metrics = trained(learner(tiny, "reinforce", kl_reward=paid), batch)
    assert_close(found, plain, 1e-4)
    assert metrics["kl_reward"] == pytest.approx(estimate[mask].mean(), rel=1e-4)
    free = trained(learner(tiny, "reinforce"), batch)[0]
    assert any(np.abs(found["weights"][name] - free["weights"][name]).max() > 1e-3 for name in free["weights"])


def test_groups_in_which_all_got_the_same_are_counted(tiny: LanguageModel) -> None:
    batch = token_experiences(rows=8, groups=4)
    reward = batch.steps["reward"].copy()
    reward[batch.offsets[[1, 5]] - 1] = 1.0  # rows 0 and 4 are group 0
    _, metrics = trained(learner(tiny, "grpo"), batch.replace(steps={"reward": reward}))
    assert metrics["equal_groups"] == 0.25


def test_what_an_advantage_needs_and_does_not_find_is_named(tiny: LanguageModel) -> None:
    for preset, column in (("remax", "baseline"), ("distill", "teacher_logp")):
        with pytest.raises(TrainError, match=f"no column {column}"):
            trained(learner(tiny, preset))


def test_vtrace_judges_by_the_current_weights(tiny: LanguageModel) -> None:
    of = learner(tiny, "a2c", advantage=AdvantageConfig(kind="vtrace"))
    batch = token_experiences()
    stale = batch.replace(steps={"value": np.full(batch.step_count, 100.0, np.float32)})
    assert_same(trained(of, batch)[0], trained(of, stale)[0])


@pytest.mark.parametrize("preset", sorted(ALGORITHMS.keys() - {"ippo", "mappo"}))
@pytest.mark.parametrize("lora", WAYS)
def test_every_preset_trains(tiny: LanguageModel, preset: str, lora: Any) -> None:
    """On a batch that has what any of them asks for."""
    parts = ALGORITHMS[preset]
    length = {"aggregation_length": 9} if parts.aggregation == "constant_norm" else {}
    of = learner(tiny, preset, lora=lora, aggregation=parts.aggregation, **length)
    batch = on_policy(tiny, mixed_experiences(6, 3, 2))
    teacher = np.where(batch.steps["mask"], batch.steps["logp"] + 0.5, np.nan).astype(np.float32)
    baseline = np.full(len(batch), 0.25, np.float32)
    found, metrics = trained(of, batch.replace(sequences={"baseline": baseline}, steps={"teacher_logp": teacher}))
    assert metrics["skipped"] == 0
    assert metrics["grad_norm"] > 0
    before = of.state_tensors(of.init(0))["weights"]
    assert any((found["weights"][name] != before[name]).any() for name in before)
    assert of.has_critic == (preset in ("ppo", "a2c")) == ("value_head.weight" in before)


def test_activation_checkpointing_changes_nothing(load_tiny: Callable[..., LanguageModel]) -> None:
    for lora in (LORA, None):
        plain = trained(learner(load_tiny(), lora=lora))[0]
        thrifty = trained(learner(load_tiny(), lora=lora, activation_checkpointing=True))[0]
        assert_close(plain, thrifty, 1e-6)


def test_a_model_in_bfloat16_trains_weights_in_float32(load_tiny: Callable[..., LanguageModel]) -> None:
    for lora in (LORA, None):
        of = learner(load_tiny(dtype="bfloat16"), lora=lora)
        found, metrics = trained(of, on_policy(load_tiny(), token_experiences()))
        assert all(tensor.dtype == np.float32 for tensor in found["weights"].values())
        assert metrics["skipped"] == 0
        assert metrics["mismatch_kl"] < 1e-2


# -- learning ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lora", WAYS)
@pytest.mark.parametrize("preset", ["reinforce", "grpo", "ppo"])
def test_a_policy_learns_to_say_what_pays(load_tiny: Callable[..., LanguageModel], preset: str, lora: Any) -> None:
    """One prompt, one token, of which the first half pays."""
    tiny = load_tiny()
    tiny.model.get_input_embeddings().weight.mul_(20)  # a random model's output is too flat to be moved by adapters
    optimizer = OptimizerConfig(learning_rate=0.02, schedule="constant")
    of = learner(tiny, preset, lora=lora, minibatch=64, epochs=1, optimizer=optimizer)
    state, random = of.init(0), np.random.default_rng(0)
    share = 0.0
    for number in range(20):
        log_probs = probabilities(of, state, tiny, lora)
        share = float(np.exp(log_probs[:128]).sum())
        tokens = random.choice(len(log_probs), size=64, p=np.exp(log_probs) / np.exp(log_probs).sum())
        batch = token_experiences(rows=64, prompt=2, longest=2, groups=1)
        action = np.tile([1, 2, 0], 64)
        action[2::3] = tokens
        steps = {
            "action": action.astype(np.int32), "mask": np.tile([False, False, True], 64),
            "logp": np.repeat(log_probs[tokens], 3), "value": np.zeros(192, np.float32),
            "reward": np.repeat(tokens < 128, 3).astype(np.float32) * np.tile([0, 0, 1], 64),
        }  # fmt: skip
        batch = Experiences(sequences=batch.sequences, offsets=np.arange(0, 193, 3), steps=steps)
        state, _ = of.train_batch(state, batch, seed=number, progress=0.0)
    assert share > 0.9


def probabilities(of: TorchLearner, state: TorchState, model: LanguageModel, lora: Any) -> np.ndarray:
    """Log-probabilities of what follows the prompt (1, 2), from weights merged into the model by hand."""
    weights = {name: torch.from_numpy(x) for name, x in of.state_tensors(state)["weights"].items()}
    merged = dict(model.model.named_parameters())
    for name in merged:
        if lora is None:
            merged[name] = weights[name]
        elif f"base_model.model.{name.removesuffix('.weight')}.lora_A.weight" in weights:
            stem = f"base_model.model.{name.removesuffix('.weight')}"
            down, up = weights[f"{stem}.lora_A.weight"], weights[f"{stem}.lora_B.weight"]
            merged[name] = merged[name] + up @ down * (lora.alpha / lora.rank)
    with torch.no_grad():
        output = torch.func.functional_call(model.model, merged, (torch.tensor([[1, 2]]),))
        return output.logits[0, -1].double().log_softmax(-1).numpy()


# -- bad input ---------------------------------------------------------------------------------------------------------


def test_what_this_model_cannot_have_written_is_refused(tiny: LanguageModel) -> None:
    of, batch = learner(tiny), token_experiences(rows=2)
    cases: dict[str, dict[str, Any]] = {
        "holds token 1000": {"action": np.full_like(batch.steps["action"], 1000)},
        "holds token -1": {"action": np.full_like(batch.steps["action"], -1)},
        "begins with a sampled token": {"mask": np.ones_like(batch.steps["mask"])},
        "decisions on a board": {"observation": np.zeros((batch.step_count, 2))},
    }
    for message, steps in cases.items():
        with pytest.raises(TrainError, match=message):
            trained(of, batch.replace(steps=steps))
    with pytest.raises(TrainError, match="300 tokens does not fit the model's context of 256"):
        trained(of, token_experiences(rows=1, prompt=298, longest=2))


def test_an_unresolved_or_impossible_config_is_refused(tiny: LanguageModel) -> None:
    with pytest.raises(ConfigError, match="not resolved"):
        TorchLearner(tiny, TrainConfig(), lora=None)
    with pytest.raises(ConfigError, match="aggregation_length"):
        learner(tiny, aggregation="constant_norm")
