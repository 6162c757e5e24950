"""The language-model learner against TRL's SFTTrainer and DPOTrainer: loss and gradient.

The trainers are real ones around the same tiny model, with weights that have moved away from the base.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ludus.config import AdvantageConfig, AlgorithmConfig, LanguageModelConfig, OptimizerConfig, TermConfig, TrainConfig
from ludus.lm.language_models import LanguageModel, load_language_model
from ludus.lm.tiny_model import make_tiny_model
from ludus.records import Experiences
from ludus.train.torch_learner import TorchLearner

pytestmark = pytest.mark.filterwarnings("ignore")

PAIRS = 4
RANDOM = np.random.default_rng(1)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    torch.set_num_threads(1)
    folder = make_tiny_model(tmp_path_factory.mktemp("imitation") / "tiny", layers=2, width=32, context=128)
    loaded = load_language_model(LanguageModelConfig(path=str(folder)))
    loaded.model.get_input_embeddings().weight.mul_(5)
    return loaded


@pytest.fixture(scope="module")
def make_trainer(model: LanguageModel, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trl = pytest.importorskip("trl", reason="TRL is an oracle only; pip install trl==1.16.0")
        from datasets import Dataset

    rows = {"SFT": {"prompt": "x", "completion": "y"}, "DPO": {"prompt": "x", "chosen": "y", "rejected": "z"}}

    def make(kind: str, **config: Any) -> Any:
        settings = getattr(trl, f"{kind}Config")(
            output_dir=str(tmp_path_factory.mktemp("trainer")), report_to=[], use_cpu=True, bf16=False,
            disable_tqdm=True, gradient_checkpointing=False, **config,
        )  # fmt: skip
        base = {"ref_model": copy.deepcopy(model.model)} if kind == "DPO" else {}
        return getattr(trl, f"{kind}Trainer")(
            model=copy.deepcopy(model.model).requires_grad_(True),
            args=settings,
            train_dataset=Dataset.from_list([rows[kind]] * PAIRS),
            processing_class=model.tokenizer,
            **base,
        )

    return make


class Answers:
    """Two answers of different lengths to each prompt, the second rejected."""

    def __init__(self) -> None:
        prompts = [RANDOM.integers(0, 200, RANDOM.integers(2, 8)) for _ in range(PAIRS)]
        self.prompts = prompts * 2
        self.answers = [RANDOM.integers(0, 200, RANDOM.integers(2, 10)) for _ in range(2 * PAIRS)]
        self.tokens = [np.concatenate(pair) for pair in zip(self.prompts, self.answers, strict=True)]

    def for_trl(self) -> dict[str, torch.Tensor]:
        """Padded on the right, chosen answers first."""
        width = max(map(len, self.tokens))
        ids, present, answer = (np.zeros((2 * PAIRS, width), np.int64) for _ in range(3))
        for row, (tokens, prompt) in enumerate(zip(self.tokens, self.prompts, strict=True)):
            ids[row, : len(tokens)], present[row, : len(tokens)] = tokens, 1
            answer[row, len(prompt) : len(tokens)] = 1
        named = {"input_ids": ids, "attention_mask": present, "completion_mask": answer}
        return {name: torch.from_numpy(x) for name, x in named.items()}

    def for_ludus(self, **sequences: Any) -> Experiences:
        """In an order in which the two of a pair are apart."""
        masks = [np.arange(len(row)) >= len(prompt) for row, prompt in zip(self.tokens, self.prompts, strict=True)]
        offsets = np.concatenate([[0], np.cumsum([len(row) for row in self.tokens])]).astype(np.int64)
        zeros = {name: np.zeros(offsets[-1], np.float32) for name in ("logp", "value", "reward")}
        steps = {
            "action": np.concatenate(self.tokens).astype(np.int32),
            "mask": np.concatenate(masks),
            "version": np.zeros(offsets[-1], np.int32),
            **zeros,
        }
        batch = Experiences(sequences=sequences, offsets=offsets, steps=steps)
        return batch.take(RANDOM.permutation(2 * PAIRS))


def moved(learner: TorchLearner) -> Any:
    """A state whose weights are not the base's."""
    state = learner.init(0)
    state.vector += 0.05 * torch.randn(state.vector.shape, generator=torch.Generator().manual_seed(0))
    return state


def ludus_gradient(model: LanguageModel, batch: Experiences, term: TermConfig) -> Any:
    """One step of plain descent at rate 1 is the gradient; and the weights it was taken at."""
    config = TrainConfig(
        minibatch=2 * PAIRS,
        epochs=1,
        algorithm=AlgorithmConfig(advantage=AdvantageConfig(kind="monte_carlo", normalise=False), objective=(term,)),
        optimizer=OptimizerConfig(kind="sgd", learning_rate=1.0, schedule="constant", max_grad_norm=None),
        tokens_per_micro_batch=30,
    )
    learner = TorchLearner(model, config, lora=None)
    state = moved(learner)
    before = learner.state_tensors(state)["weights"]
    state, metrics = learner.train_batch(state, batch, seed=0, progress=0.0)
    after = learner.state_tensors(state)["weights"]
    return before, metrics, {name: before[name] - after[name] for name in before}


def trl_gradient(trainer: Any, weights: dict[str, NDArray[Any]], inputs: dict[str, torch.Tensor]) -> Any:
    with torch.no_grad():
        for name, parameter in trainer.model.named_parameters():
            parameter.copy_(torch.from_numpy(weights[name]))
    trainer.model.train()
    loss = trainer.compute_loss(trainer.model, inputs)
    loss.backward()
    return float(loss), {name: parameter.grad.numpy() for name, parameter in trainer.model.named_parameters()}


def assert_same(metrics: Any, gradient: Any, expected: Any) -> None:
    assert metrics["loss"] == pytest.approx(expected[0], rel=1e-4)
    for name, x in expected[1].items():
        scale = np.abs(x).max() + 1e-6
        np.testing.assert_allclose(gradient[name] / scale, x / scale, atol=1e-3, err_msg=name)


def test_imitation_is_that_of_sft_trainer(model: LanguageModel, make_trainer: Callable[..., Any]) -> None:
    """The mean over all target tokens of the minibatch, though it is computed in parts."""
    answers = Answers()
    source = np.full(2 * PAIRS, "expert", object)
    weights, metrics, found = ludus_gradient(
        model, answers.for_ludus(source=source), TermConfig(loss="sft", source="expert")
    )
    inputs = answers.for_trl()
    labels = inputs["input_ids"].masked_fill(inputs.pop("completion_mask") == 0, -100)
    assert_same(metrics, found, trl_gradient(make_trainer("SFT"), weights, {**inputs, "labels": labels}))


@pytest.mark.parametrize("beta", [0.1, 2.0])
def test_preference_is_that_of_dpo_trainer(model: LanguageModel, make_trainer: Callable[..., Any], beta: float) -> None:
    """Four pairs in parts of a pair or so: the mean over pairs, each by the sums over its answers."""
    answers = Answers()
    pair = np.array([f"p{number}" for number in range(PAIRS)] * 2, object)
    batch = answers.for_ludus(pair=pair, chosen=np.arange(2 * PAIRS) < PAIRS)
    term = TermConfig(loss="dpo", source="pairs", options={"beta": beta})
    weights, metrics, found = ludus_gradient(model, batch, term)
    expected = trl_gradient(make_trainer("DPO", beta=beta), weights, answers.for_trl())
    assert_same(metrics, found, expected)
    assert metrics["loss"] != pytest.approx(np.log(2), rel=1e-2)
