"""A teacher says what a plain forward pass of its model says, alone or with others, and is refused where it cannot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ludus.config import ALGORITHMS, AlgorithmConfig, LanguageModelConfig, LoraConfig, OptimizerConfig, TrainConfig
from ludus.errors import ConfigError, TrainError
from ludus.lm.adapters import PREFIX, A, B, adapter_names, adapter_shapes
from ludus.lm.language_models import LanguageModel
from ludus.lm.language_shape import ADAPTER
from ludus.lm.teachers import TeacherModel, check_same_tokens
from ludus.lm.tiny_model import make_tiny_model
from ludus.records import Experiences
from ludus.storage.tensors import save_tensors
from ludus.train.reducer import Reducer
from ludus.train.torch_credit import Teacher
from ludus.train.torch_learner import TorchLearner

from .conftest import mixed_experiences, token_experiences

LORA = LoraConfig(rank=2, alpha=4.0)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A teacher of another size with the same tokens."""
    return make_tiny_model(tmp_path_factory.mktemp("teacher") / "tiny", seed=7, layers=1, width=16, heads=2, kv_heads=1)


def whole(path: Path | str) -> TeacherModel:
    return TeacherModel(model=LanguageModelConfig(path=str(path), lora=None))


def plain_logp(model: Any, rows: Experiences, temperature: float) -> np.ndarray:
    """By transformers' own forward, one row after the other."""
    found = np.zeros(rows.step_count, np.float32)
    for row in range(len(rows)):
        span = slice(int(rows.offsets[row]), int(rows.offsets[row + 1]))
        tokens = torch.from_numpy(rows.steps["action"][span].astype(np.int64))
        with torch.no_grad():
            logits = model(input_ids=tokens[None]).logits[0, :-1] / temperature
        logp = logits.log_softmax(-1).gather(1, tokens[1:, None])[:, 0].numpy()
        found[span][1:] = np.where(rows.steps["mask"][span][1:], logp, 0.0)
    return found


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_a_teacher_says_what_its_model_says(other: Path, temperature: float) -> None:
    from transformers import AutoModelForCausalLM

    rows = token_experiences(turns=2)
    expected = plain_logp(AutoModelForCausalLM.from_pretrained(other), rows, temperature)
    found = Teacher(whole(other), context=256, temperature=temperature).logp(rows, 40)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


def test_the_adapters_of_a_version_count(load_tiny: Callable[..., LanguageModel], tmp_path: Path) -> None:
    merged = load_tiny()
    random = np.random.default_rng(3)
    adapter = {n: random.normal(0, 0.2, s).astype(np.float32) for n, s in adapter_shapes(merged.model, LORA).items()}
    save_tensors(tmp_path / ADAPTER, adapter)
    for name in adapter_names(merged.model, LORA):
        change = LORA.alpha / LORA.rank * adapter[PREFIX + name + B] @ adapter[PREFIX + name + A]
        merged.model.get_submodule(name).weight.data += torch.from_numpy(change)
    rows = token_experiences()
    source = TeacherModel(model=LanguageModelConfig(path=merged.path, lora=LORA), adapter=str(tmp_path))
    found = Teacher(TeacherModel.from_json(source.to_json()), context=256).logp(rows, 1000)
    np.testing.assert_allclose(found, plain_logp(merged.model, rows, 1.0), rtol=0, atol=1e-4)
    assert np.abs(found - Teacher(whole(merged.path), context=256).logp(rows, 1000)).max() > 0.01


class OneOfTwo(Reducer):
    """A trainer that adds nothing of the other's."""

    size = 2

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def add_up(self, tensor: torch.Tensor) -> None:
        """Leave the own share as it is."""


def test_trainers_share_the_work(other: Path) -> None:
    rows = token_experiences(rows=9, groups=9)
    shares = [Teacher(whole(other), context=256, reducer=OneOfTwo(rank)).logp(rows, 30) for rank in (0, 1)]
    assert all((share != 0).any() for share in shares)
    np.testing.assert_allclose(sum(shares), Teacher(whole(other), context=256).logp(rows, 30), rtol=0, atol=1e-6)


def test_a_learner_asks_the_teacher_about_what_the_policy_said(tiny: LanguageModel, other: Path) -> None:
    preset = ALGORITHMS["distill"]
    algorithm = AlgorithmConfig(preset="distill", advantage=preset.advantage, objective=preset.objective)
    train = TrainConfig(algorithm=algorithm, epochs=1, optimizer=OptimizerConfig(learning_rate=1e-3))
    teacher = Teacher(whole(other), context=256)
    batch = mixed_experiences(6, 3)
    on_policy = batch.take(np.flatnonzero(batch.sequences["source"] == "on_policy"))
    logp = teacher.logp(on_policy, 1000)
    results = []
    for given, known in ((teacher, batch), (None, on_policy.replace(steps={"teacher_logp": logp}))):
        of = TorchLearner(tiny, train, lora=LORA, teacher=given)
        state, metrics = of.train_batch(of.init(0), known, seed=1, progress=0.0)
        mask = on_policy.steps["mask"]
        assert metrics["reverse_kl"] == pytest.approx(float((on_policy.steps["logp"] - logp)[mask].mean()), rel=1e-5)
        results.append(of.state_tensors(state)["weights"])
    for name, tensor in results[0].items():
        np.testing.assert_allclose(tensor, results[1][name], rtol=0, atol=1e-6, err_msg=name)


def test_what_a_teacher_cannot_judge_is_refused(other: Path) -> None:
    with pytest.raises(ConfigError, match=r"policy\.teacher: context: .* was made for 1024 tokens at most, got 2000"):
        Teacher(whole(other), context=2000)
    rows = token_experiences()
    strange = rows.replace(steps={"action": np.full(rows.step_count, 300, np.int32)})
    with pytest.raises(TrainError, match="does not know token 300"):
        Teacher(whole(other), context=256).logp(strange, 100)


def test_a_teacher_of_other_tokens_is_refused(other: Path, tmp_path: Path) -> None:
    import json
    import shutil

    check_same_tokens(str(other), "ludus/mini")
    strange = Path(shutil.copytree(other, tmp_path / "strange"))
    text = json.loads((strange / "tokenizer.json").read_text())
    vocabulary = text["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    (strange / "tokenizer.json").write_text(json.dumps(text))
    with pytest.raises(ConfigError, match=r"policy\.teacher: .* has other tokens than .* the first that differs is 97"):
        check_same_tokens(str(other), str(strange))
    with pytest.raises(ConfigError, match=r"policy\.teacher: no model folder nowhere/at/all"):
        check_same_tokens(str(other), "nowhere/at/all")
