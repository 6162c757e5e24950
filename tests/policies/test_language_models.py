"""Loading a language model: what comes out, and every folder that is refused, with one sentence."""

from __future__ import annotations

import json
import pickle
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration

from ludus.config import LanguageModelConfig
from ludus.errors import ConfigError
from ludus.lm.language_models import LanguageModel, load_language_model

Load = Callable[..., LanguageModel]


def edit(file: Path, **values: Any) -> None:
    read = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**read, **values}))


def refused(load: Load, folder: Path | str, **options: Any) -> str:
    """The sentence with which a folder is refused."""
    with pytest.raises(ConfigError) as caught:
        load(folder, **options)
    text = str(caught.value)
    assert "\n" not in text
    return text


def put_model(made: Any, tiny: Path, folder: Path) -> Path:
    """A folder with another architecture's weights and the tiny model's tokenizer."""
    shutil.copytree(tiny, folder)
    (folder / "generation_config.json").unlink()
    made.save_pretrained(folder)
    return folder


def test_a_model_is_frozen_in_evaluation_mode_and_float32(model: LanguageModel, tiny: Path) -> None:
    assert not model.model.training
    assert not any(parameter.requires_grad for parameter in model.model.parameters())
    assert {parameter.dtype for parameter in model.model.parameters()} == {torch.float32}
    assert (model.context, model.path, model.folder, model.width) == (128, str(tiny), tiny, 32)


def test_type_threads_and_context_are_as_asked(load: Load, tiny: Path) -> None:
    asked = LanguageModelConfig(path=str(tiny), dtype="bfloat16", context=64)
    loaded = load_language_model(asked, threads=1)
    assert torch.get_num_threads() == 1
    assert {parameter.dtype for parameter in loaded.model.parameters()} == {torch.bfloat16}
    assert loaded.context == 64


def test_a_long_context_is_used_only_when_asked_for(load: Load, copy: Path) -> None:
    edit(copy / "config.json", max_position_embeddings=100_000)
    assert load(copy).context == 4096
    assert load(copy, context=50_000).context == 50_000


def test_loading_says_nothing_on_the_terminal(load: Load, tiny: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(tiny)
    assert capfd.readouterr() == ("", "")


def test_another_architecture_does_as_well(load: Load, tiny: Path, tmp_path: Path) -> None:
    config = GPT2Config(n_layer=1, n_head=2, n_embd=16, n_positions=64, vocab_size=259)
    loaded = load(put_model(GPT2LMHeadModel(config), tiny, tmp_path / "gpt2"))
    assert (loaded.context, loaded.width) == (64, 16)


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/nowhere/at/all", "./models/none", "../x", "a/b/c", "~/no such folder"])
def test_a_missing_folder(load: Load, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert refused(load, path) == f"no model folder {path}; make one with: ludus model make {path}"


def test_an_unknown_model_while_the_hub_is_out_of_reach(load: Load) -> None:
    said = refused(load, "nobody/nothing")
    assert "not in the cache, and the hub cannot be reached" in said
    assert "hf download nobody/nothing" in said
    assert "ludus model make" not in said, "a random model under that name is not what was asked for"


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "weights.pkl"])
def test_pickled_weights_are_never_read(load: Load, copy: Path, name: str) -> None:
    (copy / "model.safetensors").unlink()
    (copy / name).write_bytes(pickle.dumps(Explosive()))
    assert f"holds its weights as pickle ({name})" in refused(load, copy)


class Explosive:
    """Fails the test of whoever reads it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("a pickle was read",))


def test_a_pickle_that_is_called_safetensors(load: Load, copy: Path) -> None:
    (copy / "model.safetensors").write_bytes(pickle.dumps(Explosive()))
    assert "weights that transformers cannot load" in refused(load, copy)


def test_an_index_that_points_to_pickles_or_out_of_the_folder(load: Load, copy: Path) -> None:
    (copy / "model.safetensors").rename(copy / "model-00001-of-00001.safetensors")
    for name in ("pytorch_model.bin", "../tiny/model.safetensors"):
        edit(copy / "model.safetensors.index.json", metadata={}, weight_map={"model.norm.weight": name})
        assert f"names '{name}' as weights" in refused(load, copy)
    edit(copy / "model.safetensors.index.json", metadata={}, weight_map={"x": "model-00002-of-00002.safetensors"})
    assert "is incomplete: its index names model-00002-of-00002.safetensors" in refused(load, copy)


def test_no_weights_at_all(load: Load, copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    assert "holds no weights" in refused(load, copy)


def test_weights_that_are_cut_short(load: Load, copy: Path) -> None:
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert "weights that transformers cannot load" in refused(load, copy)


def test_weights_that_are_missing_are_never_made_up(load: Load, copy: Path) -> None:
    edit(copy / "config.json", num_hidden_layers=3, layer_types=["full_attention"] * 3)
    assert "lacks 11 of the weights its config.json asks for: model.layers.2." in refused(load, copy)


def test_weights_of_another_size(load: Load, copy: Path) -> None:
    edit(copy / "config.json", intermediate_size=64)
    assert "weights that transformers cannot load" in refused(load, copy)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_remote_code(load: Load, copy: Path, name: str) -> None:
    (copy / "evil.py").write_text("raise SystemExit('code of the model ran')")
    edit(copy / name, auto_map={"AutoConfig": "evil.Config", "AutoTokenizer": ["evil.T", None]})
    assert f"asks to run Python code of its own (auto_map in {name})" in refused(load, copy)


def test_remote_code_in_a_part_of_the_config(load: Load, copy: Path) -> None:
    edit(copy / "config.json", text_config={"auto_map": {"AutoConfig": "evil.Config"}})
    assert "Python code of its own" in refused(load, copy)


def test_a_tokenizer_without_a_chat_template(load: Load, copy: Path) -> None:
    (copy / "chat_template.jinja").unlink()
    assert "a tokenizer without a chat template" in refused(load, copy)


def test_no_tokenizer(load: Load, copy: Path) -> None:
    (copy / "tokenizer.json").unlink()
    assert "holds no tokenizer" in refused(load, copy)


def test_a_tokenizer_that_is_damaged(load: Load, copy: Path) -> None:
    (copy / "tokenizer.json").write_text("{}")
    assert "has no tokenizer that transformers can use" in refused(load, copy)


def test_a_tokenizer_with_more_tokens_than_the_model(load: Load, tiny: Path, tmp_path: Path) -> None:
    config = GPT2Config(n_layer=1, n_head=2, n_embd=16, n_positions=64, vocab_size=100)
    folder = put_model(GPT2LMHeadModel(config), tiny, tmp_path / "small")
    assert "a tokenizer of 259 tokens but embeddings for 100" in refused(load, folder)


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (
            lambda: BertForMaskedLM(BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2)),
            "BertForMaskedLM",
        ),
        (
            lambda: T5ForConditionalGeneration(T5Config(d_model=16, d_kv=8, d_ff=16, num_layers=1)),
            "T5ForConditionalGeneration",
        ),
    ],
)
def test_what_is_not_a_causal_language_model(
    load: Load, tiny: Path, tmp_path: Path, made: Callable[[], Any], kind: str
) -> None:
    folder = put_model(made(), tiny, tmp_path / "other")
    assert refused(load, folder) == f"{folder} is a {kind}, not a causal language model"


def test_an_architecture_that_transformers_does_not_know(load: Load, copy: Path) -> None:
    edit(copy / "config.json", model_type="from_the_future")
    assert "a config.json that transformers cannot use" in refused(load, copy)


def test_a_context_beyond_what_the_model_was_made_for(load: Load, tiny: Path) -> None:
    assert refused(load, tiny, context=129) == f"context: {tiny} was made for 128 tokens at most, got 129"


def test_a_quantised_model(load: Load, copy: Path) -> None:
    edit(copy / "config.json", quantization_config={"quant_method": "gptq"})
    assert "is quantised" in refused(load, copy)


def test_an_adapter_in_place_of_a_model(load: Load, copy: Path) -> None:
    edit(copy / "adapter_config.json", base_model_name_or_path="models/base")
    assert "holds an adapter, not a model; give the model below it as path (models/base)" in refused(load, copy)


@pytest.mark.parametrize("content", [b"{", b"[]", b"[" * 100_000, b"\xff\xfe"])
def test_a_config_that_is_not_json(load: Load, copy: Path, content: bytes) -> None:
    (copy / "config.json").write_bytes(content)
    assert f"{copy / 'config.json'} is not" in refused(load, copy)


def test_a_folder_that_is_something_else(load: Load, tmp_path: Path) -> None:
    assert "there is no config.json in it" in refused(load, tmp_path)
