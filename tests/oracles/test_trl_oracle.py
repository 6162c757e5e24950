"""The language-model learner against TRL's GRPOTrainer and RLOOTrainer: loss, gradient and advantages.

The trainers are real ones around the same tiny model; what they would have generated is given to them. Where they differ
on purpose (rows without a sampled token), the test says how.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ludus.config import AdvantageConfig, AlgorithmConfig, LanguageModelConfig, OptimizerConfig, TermConfig, TrainConfig
from ludus.lm.language_models import LanguageModel, load_language_model
from ludus.lm.tiny_model import make_tiny_model
from ludus.records import Experiences
from ludus.train.advantages import compute
from ludus.train.importance import importance_weight
from ludus.train.torch_learner import TorchLearner

pytestmark = pytest.mark.filterwarnings("ignore")

ROWS, PROMPT, LONGEST, MOST = 6, 7, 9, 12
RANDOM = np.random.default_rng(0)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    torch.set_num_threads(1)
    folder = make_tiny_model(tmp_path_factory.mktemp("trl") / "tiny", layers=2, width=32, context=128)
    loaded = load_language_model(LanguageModelConfig(path=str(folder)))
    loaded.model.get_input_embeddings().weight.mul_(5)
    return loaded


@pytest.fixture(scope="module")
def make_trainer(model: LanguageModel, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trl = pytest.importorskip("trl", reason="TRL is an oracle only; pip install trl==1.16.0")
        from datasets import Dataset

    def make(kind: str = "GRPO", **config: Any) -> Any:
        import copy

        folder: Path = tmp_path_factory.mktemp("trainer")
        settings = getattr(trl, f"{kind}Config")(
            output_dir=str(folder), per_device_train_batch_size=ROWS, max_completion_length=MOST, report_to=[],
            use_cpu=True, bf16=False, disable_tqdm=True, gradient_checkpointing=False, temperature=0.8,
            **{"num_generations": 3, "beta": 0.0, **config},
        )  # fmt: skip
        trainer = getattr(trl, f"{kind}Trainer")(
            model=copy.deepcopy(model.model).requires_grad_(True),
            reward_funcs=lambda completions, reward, **_: list(reward),
            args=settings,
            train_dataset=Dataset.from_list([{"prompt": "x", "reward": 0.0}] * ROWS),
            processing_class=model.tokenizer,
        )
        trainer.current_gradient_accumulation_steps = 1
        trainer.model.train()
        return trainer

    return make


# -- the same experience for both --------------------------------------------------------------------------------------


class Sample:
    """Sequences with an opponent's words in between, uneven prompts, and one row in which the policy said nothing."""

    def __init__(self, *, empty_row: bool = False) -> None:
        self.prompts = [RANDOM.integers(0, 200, RANDOM.integers(2, PROMPT + 1)) for _ in range(ROWS)]
        self.replies = [RANDOM.integers(0, 200, RANDOM.integers(3, LONGEST + 1)) for _ in range(ROWS)]
        self.spoken = [RANDOM.random(len(reply)) < 0.7 for reply in self.replies]
        for spoken in self.spoken:
            spoken[[0, -1]] = True
        if empty_row:
            self.spoken[2][:] = False
        self.advantage = RANDOM.normal(size=ROWS)
        self.old = [-5.3 + 0.4 * RANDOM.normal(size=len(reply)) for reply in self.replies]
        self.engine = [-5.3 + 0.4 * RANDOM.normal(size=len(reply)) for reply in self.replies]

    def padded(self, parts: list[Any], *, left: bool = False) -> torch.Tensor:
        out = np.zeros((ROWS, max(map(len, parts))), np.asarray(parts[0]).dtype)
        for row, part in enumerate(parts):
            out[row, out.shape[1] - len(part) :] = part if left else out[row, out.shape[1] - len(part) :]
            if not left:
                out[row, : len(part)] = part
        return torch.from_numpy(out)

    def for_trl(self) -> dict[str, torch.Tensor]:
        spoken = self.padded(self.spoken)
        return {
            "prompt_ids": self.padded(self.prompts, left=True),
            "prompt_mask": self.padded([np.ones(len(prompt), np.int64) for prompt in self.prompts], left=True),
            "completion_ids": self.padded(self.replies),
            "completion_mask": self.padded([np.ones(len(reply), np.int64) for reply in self.replies]),
            "tool_mask": spoken.long(),
            "advantages": torch.from_numpy(self.advantage).float(),
            "old_per_token_logps": self.padded(self.old).float(),
            "num_items_in_batch": spoken.sum(),
        }

    def for_ludus(self) -> Experiences:
        tokens = [np.concatenate(pair) for pair in zip(self.prompts, self.replies, strict=True)]
        masks = [
            np.concatenate([np.zeros(len(prompt), bool), spoken])
            for prompt, spoken in zip(self.prompts, self.spoken, strict=True)
        ]
        logps = [
            np.concatenate([np.zeros(len(prompt)), old]) for prompt, old in zip(self.prompts, self.old, strict=True)
        ]
        offsets = np.concatenate([[0], np.cumsum([len(row) for row in tokens])]).astype(np.int64)
        count = int(offsets[-1])
        reward = np.zeros(count, np.float32)
        reward[offsets[1:] - 1] = self.advantage
        steps = {
            "action": np.concatenate(tokens).astype(np.int32),
            "mask": np.concatenate(masks),
            "logp": np.concatenate(logps).astype(np.float32),
            "value": np.zeros(count, np.float32),
            "reward": reward,
            "version": np.zeros(count, np.int32),
        }
        return Experiences(sequences={}, offsets=offsets, steps=steps)


def trl_gradient(trainer: Any, sample: Sample, **more: torch.Tensor) -> tuple[float, dict[str, NDArray[Any]]]:
    trainer.model.zero_grad()
    loss = trainer._compute_loss(trainer.model, {**sample.for_trl(), **more})
    loss.backward()
    return float(loss), {name: p.grad.numpy() for name, p in trainer.model.named_parameters()}


def ludus_gradient(
    model: LanguageModel, sample: Sample, terms: tuple[TermConfig, ...], **train: Any
) -> tuple[float, dict[str, NDArray[Any]]]:
    """One step of plain descent at rate 1 is the gradient."""
    config = TrainConfig(
        minibatch=ROWS,
        epochs=1,
        algorithm=AlgorithmConfig(advantage=AdvantageConfig(kind="monte_carlo", normalise=False), objective=terms),
        optimizer=OptimizerConfig(kind="sgd", learning_rate=1.0, schedule="constant", max_grad_norm=None),
        tokens_per_micro_batch=30,
        **train,
    )
    learner = TorchLearner(model, config, lora=None, temperature=0.8)
    state = learner.init(0)
    before = learner.state_tensors(state)["weights"]
    state, metrics = learner.train_batch(state, sample.for_ludus(), seed=0, progress=0.0)
    after = learner.state_tensors(state)["weights"]
    return metrics["loss"], {name: before[name] - after[name] for name in before}


def assert_same(found: Any, expected: Any, factor: float = 1.0) -> None:
    assert found[0] == pytest.approx(expected[0] * factor, rel=2e-4, abs=1e-6)
    for name, x in expected[1].items():
        scale = np.abs(x).max() + 1e-6
        np.testing.assert_allclose(found[1][name] / scale, x * factor / scale, atol=1e-3, err_msg=name)


def clip(**options: Any) -> TermConfig:
    return TermConfig(loss="ppo_clip", options={"clip_low": 0.2, "clip_high": 0.28, **options})


AGGREGATIONS: dict[str, dict[str, Any]] = {
    "dapo": {"aggregation": "token_mean"},
    "grpo": {"aggregation": "sequence_mean_token_mean"},
    "dr_grpo": {"aggregation": "constant_norm", "aggregation_length": MOST},
    "luspo": {"aggregation": "sequence_mean_token_sum"},
}


@pytest.mark.parametrize("kind", AGGREGATIONS)
def test_loss_and_gradient_are_those_of_grpo_trainer(
    model: LanguageModel, make_trainer: Callable[..., Any], kind: str
) -> None:
    level = {"importance_sampling_level": "sequence"} if kind == "luspo" else {}
    trainer = make_trainer(loss_type=kind, epsilon=0.2, epsilon_high=0.28, **level)
    sample = Sample()
    terms = (clip(level="sequence" if kind == "luspo" else "token"),)
    assert_same(ludus_gradient(model, sample, terms, **AGGREGATIONS[kind]), trl_gradient(trainer, sample))


@pytest.mark.parametrize("kind", ["dapo", "grpo", "dr_grpo"])
def test_a_row_in_which_nothing_was_sampled_is_not_counted(
    model: LanguageModel, make_trainer: Callable[..., Any], kind: str
) -> None:
    """TRL counts it among the rows, ludus (as verl) does not; among tokens it makes no difference."""
    trainer = make_trainer(loss_type=kind, epsilon=0.2, epsilon_high=0.28)
    sample = Sample(empty_row=True)
    factor = 1.0 if kind == "dapo" else ROWS / (ROWS - 1)
    assert_same(ludus_gradient(model, sample, (clip(),), **AGGREGATIONS[kind]), trl_gradient(trainer, sample), factor)


def test_the_ratio_of_whole_sequences_is_that_of_gspo(model: LanguageModel, make_trainer: Callable[..., Any]) -> None:
    trainer = make_trainer(loss_type="grpo", importance_sampling_level="sequence", epsilon=0.01, epsilon_high=0.02)
    sample = Sample()
    term = clip(level="sequence", clip_low=0.01, clip_high=0.02)
    assert_same(ludus_gradient(model, sample, (term,), **AGGREGATIONS["grpo"]), trl_gradient(trainer, sample))


def test_cispo_is_that_of_grpo_trainer(model: LanguageModel, make_trainer: Callable[..., Any]) -> None:
    """TRL's `epsilon_high` is the cap itself, not its distance from 1."""
    trainer = make_trainer(loss_type="cispo", epsilon_high=1.15)
    sample, term = Sample(), TermConfig(loss="cispo", options={"clip_high": 0.15})
    assert_same(ludus_gradient(model, sample, (term,)), trl_gradient(trainer, sample))


def test_sapo_is_that_of_grpo_trainer(model: LanguageModel, make_trainer: Callable[..., Any]) -> None:
    trainer = make_trainer(loss_type="sapo", sapo_temperature_pos=1.0, sapo_temperature_neg=1.05)
    sample = Sample()
    found = ludus_gradient(model, sample, (TermConfig(loss="sapo"),), **AGGREGATIONS["grpo"])
    assert_same(found, trl_gradient(trainer, sample))


@pytest.mark.parametrize("corrected", [False, True])
def test_the_kl_term_is_that_of_grpo_trainer(
    model: LanguageModel, make_trainer: Callable[..., Any], corrected: bool
) -> None:
    """With the behaviour as reference: the base is the policy itself at the beginning, and its term 0."""
    trainer = make_trainer(beta=0.3, epsilon_high=0.28, use_bias_correction_kl=corrected)
    sample, options = Sample(), {"importance": "ratio" if corrected else "none"}
    terms = (clip(), TermConfig(loss="kl", weight=0.3, options=dict(options)))
    expected = trl_gradient(trainer, sample, ref_per_token_logps=sample.for_trl()["old_per_token_logps"])
    assert_same(ludus_gradient(model, sample, terms), expected)
    terms = (clip(), TermConfig(loss="kl", weight=0.3, options={**options, "reference": "base"}))
    assert_same(ludus_gradient(model, sample, terms), trl_gradient(make_trainer(epsilon_high=0.28), sample))


@pytest.mark.parametrize("mode", ["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"])
def test_importance_weights_are_those_of_grpo_trainer(make_trainer: Callable[..., Any], mode: str) -> None:
    trainer = make_trainer()
    trainer.use_vllm, trainer.vllm_importance_sampling_correction = True, True
    trainer.vllm_importance_sampling_mode = mode
    trainer.vllm_importance_sampling_clip_min, trainer.vllm_importance_sampling_clip_max = 0.5, 1.3
    sample = Sample()
    mask = [spoken.astype(int).tolist() for spoken in sample.spoken]
    generated = (
        [prompt.tolist() for prompt in sample.prompts], [reply.tolist() for reply in sample.replies], mask,
        ["x"] * ROWS, [engine.tolist() for engine in sample.engine], {}, None, None,
    )  # fmt: skip
    trainer._generate = lambda prompts: generated
    output = trainer._generate_and_score_completions([{"prompt": "x", "reward": 0.0}] * ROWS)
    level, correction = mode.split("_")
    chosen = sample.padded(sample.spoken)
    found = importance_weight(
        output["old_per_token_logps"], sample.padded(sample.engine).float(), chosen.float(),
        correction=correction, level=level, low=0.5, high=1.3,  # type: ignore[arg-type]
    )  # fmt: skip
    expected = output["importance_sampling_ratio"].expand(found.shape)
    np.testing.assert_allclose(found[chosen], expected[chosen], rtol=1e-4)
    assert (found[chosen] != 1).any()


def test_the_corrected_loss_is_that_of_grpo_trainer(model: LanguageModel, make_trainer: Callable[..., Any]) -> None:
    trainer = make_trainer(loss_type="dapo", epsilon=0.2, epsilon_high=0.28)
    trainer.use_vllm, trainer.vllm_importance_sampling_correction = True, True
    sample = Sample()
    inputs = sample.for_trl()
    with torch.no_grad():
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
        attention = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
        start, *_ = trainer._get_per_token_logps_and_entropies(
            trainer.model, ids, attention, inputs["completion_ids"].shape[1]
        )
    engine = inputs["old_per_token_logps"]  # what ludus has from the engine; TRL's "old" is recomputed
    weight = torch.exp((start - engine) * inputs["tool_mask"]).clamp(max=1.2)
    expected = trl_gradient(trainer, sample, old_per_token_logps=start, importance_sampling_ratio=weight)
    terms = (clip(importance="truncate", importance_high=1.2),)
    assert_same(ludus_gradient(model, sample, terms), expected)


# -- advantages --------------------------------------------------------------------------------------------------------


def trl_advantages(trainer: Any, rewards: NDArray[Any], *, evaluate: bool = False) -> NDArray[Any]:
    """What the trainer makes of these rewards, when this is what it has generated."""
    ids = [[5, 6, 7]] * len(rewards)
    grpo = (ids, ids, None, ["x"] * len(rewards), None, {}, None, None)
    trainer._generate = lambda prompts: grpo if hasattr(trainer, "scale_rewards") else (ids, ids, ["x"] * len(rewards))
    trainer.model.train(not evaluate)
    inputs = [{"prompt": "x", "reward": float(reward)} for reward in rewards]
    found: NDArray[Any] = trainer._generate_and_score_completions(inputs)["advantages"].numpy()
    return found


def ludus_advantages(rewards: NDArray[Any], size: int, **config: Any) -> NDArray[Any]:
    count = len(rewards)
    reward = np.zeros((count, 2), np.float32)
    reward[:, 1] = rewards
    groups = np.array([f"g{row // size}" for row in range(count)], object)
    batch = Experiences(
        sequences={"group": groups},
        offsets=np.arange(0, 2 * count + 1, 2),
        steps={"mask": np.tile([False, True], count), "reward": reward.reshape(-1)},
    )
    return compute(batch, AdvantageConfig(**config))[0].reshape(count, 2)[:, 1]


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_group_advantages_are_those_of_grpo_trainer(make_trainer: Callable[..., Any], scale: Any) -> None:
    rewards = RANDOM.normal(size=ROWS)
    rewards[:3] = 0.25  # a group in which all are equal
    trainer = make_trainer(scale_rewards=scale)
    expected = trl_advantages(trainer, rewards)
    np.testing.assert_allclose(ludus_advantages(rewards, 3, kind="group", scale=scale), expected, rtol=1e-4, atol=1e-6)


def test_groups_of_one_get_nothing_as_in_grpo_trainer(make_trainer: Callable[..., Any]) -> None:
    rewards = RANDOM.normal(size=4)
    trainer = make_trainer()
    trainer.num_generations_eval = 1
    assert (trl_advantages(trainer, rewards, evaluate=True) == 0).all()
    assert (ludus_advantages(rewards, 1, kind="group") == 0).all()


def test_leave_one_out_advantages_are_those_of_rloo_trainer(make_trainer: Callable[..., Any]) -> None:
    rewards = RANDOM.normal(size=ROWS)
    expected = trl_advantages(make_trainer("RLOO"), rewards)
    np.testing.assert_allclose(ludus_advantages(rewards, 3, kind="rloo"), expected, rtol=1e-4, atol=1e-6)


def test_imitation_is_the_cross_entropy_over_all_targets(model: LanguageModel) -> None:
    """The mean over the targets of the whole minibatch, not a mean of the means of its parts."""
    sample = Sample()
    batch = sample.for_ludus()
    losses = []
    for row in range(ROWS):
        part = slice(int(batch.offsets[row]), int(batch.offsets[row + 1]))
        tokens = torch.from_numpy(batch.steps["action"][part].astype(np.int64))
        labels = torch.where(torch.from_numpy(batch.steps["mask"][part]), tokens, -100)
        logits = model.model(tokens[None]).logits[0, :-1] / 0.8
        losses.append(torch.nn.functional.cross_entropy(logits, labels[1:], reduction="none")[labels[1:] >= 0])
    found, _ = ludus_gradient(model, sample, (TermConfig(loss="sft"),))
    assert found == pytest.approx(float(torch.cat(losses).mean()), rel=1e-5)
