"""The model that ludus makes itself."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from ludus.errors import ConfigError
from ludus.lm.language_models import LanguageModel
from ludus.lm.model_folder import writing_model
from ludus.lm.tiny_model import make_tiny_model
from ludus.storage.atomic import directory_hashes


def test_it_is_a_qwen3_of_about_a_million_parameters_that_transformers_loads(tmp_path: Path) -> None:
    made = AutoModelForCausalLM.from_pretrained(make_tiny_model(tmp_path / "m"))
    assert type(made).__name__ == "Qwen3ForCausalLM"
    assert 800_000 <= sum(parameter.numel() for parameter in made.parameters()) <= 1_000_000
    assert made.lm_head.weight is made.model.embed_tokens.weight
    assert made.config.max_position_embeddings == 1024
    logits = made(torch.tensor([[1, 2, 3]])).logits
    assert logits.shape == (1, 3, 259)
    assert torch.isfinite(logits).all()


@given(text=st.text())
def test_tokens_are_bytes_and_every_text_comes_back(model: LanguageModel, text: str) -> None:
    tokens = model.tokenizer.encode(text, add_special_tokens=False)
    assert bytes(tokens) == text.encode()
    assert model.tokenizer.decode(tokens) == text


def test_any_bytes_can_be_decoded(model: LanguageModel) -> None:
    assert model.tokenizer.decode([0xFF, 0x41, 0xC3]) == "\ufffdA\ufffd"


def test_turns_are_marked_by_special_tokens_and_one_letter(model: LanguageModel) -> None:
    talk = [{"role": "system", "content": "r"}, {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    start, end = model.tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    expected = [token for role, said in ("sr", "uq", "aa") for token in (start, ord(role), ord(said), end)]
    assert model.tokenizer.apply_chat_template(talk, return_dict=False) == expected
    assert model.tokenizer.eos_token_id == end
    assert model.tokenizer.pad_token_id not in (start, end)


def test_the_same_seed_gives_the_same_folder_and_leaves_the_random_state_alone(tmp_path: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    one, two = (make_tiny_model(tmp_path / name, layers=1, width=16, seed=3) for name in "ab")
    other = make_tiny_model(tmp_path / "c", layers=1, width=16, seed=4)
    assert torch.equal(torch.rand(1), expected)
    assert directory_hashes(one) == directory_hashes(two)
    assert directory_hashes(one) != directory_hashes(other)


def test_making_it_again_is_a_no_op_and_another_model_is_refused(tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path / "m", layers=1, width=16)
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    make_tiny_model(folder, layers=1, width=16)
    with pytest.raises(ConfigError, match="holds another model already"):
        make_tiny_model(folder, layers=1, width=16, seed=1)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert os.listdir(tmp_path) == ["m"]


def test_a_folder_that_is_no_model_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("x")
    with pytest.raises(ConfigError, match="exists and is not a model"):
        make_tiny_model(tmp_path)
    assert os.listdir(tmp_path) == ["precious.txt"]


def test_all_may_read_what_was_written(tiny: Path) -> None:
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o644 for file in tiny.iterdir())


@pytest.mark.parametrize("sizes", [{"width": 30}, {"heads": 3}, {"kv_heads": 3}, {"width": 20, "heads": 4}])
def test_sizes_that_do_not_fit_are_one_sentence(tmp_path: Path, sizes: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="multiple of"):
        make_tiny_model(tmp_path / "m", **sizes)
    assert not (tmp_path / "m").exists()


def test_two_that_make_the_same_model_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    final = tmp_path / "m"
    with writing_model(final) as staging:
        make_tiny_model(final, layers=1, width=16)
        shutil.copytree(final, staging, dirs_exist_ok=True)
    assert sorted(os.listdir(tmp_path)) == ["m"]


def write(final: Path, *, meanwhile: Callable[[], object]) -> None:
    """Write something small as a model, while something else happens."""
    with writing_model(final) as staging:
        (staging / "config.json").write_text("{}")
        meanwhile()


def test_of_two_that_make_different_models_at_once_the_second_is_refused(tmp_path: Path) -> None:
    final = tmp_path / "m"
    with pytest.raises(ConfigError, match="holds another model"):
        write(final, meanwhile=lambda: make_tiny_model(final, layers=1, width=16))
    assert os.listdir(tmp_path) == ["m"]
    assert (final / "model.safetensors").is_file()


def test_a_model_that_fails_half_way_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        write(tmp_path / "m", meanwhile=lambda: 1 / 0)
    assert os.listdir(tmp_path) == []
