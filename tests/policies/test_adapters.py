"""Adapters: peft's own names, shapes, beginnings and results."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig as PeftConfig
from peft import PeftModel, get_peft_model, get_peft_model_state_dict
from safetensors.numpy import save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from ludus.config import LoraConfig
from ludus.errors import ConfigError
from ludus.lm.adapters import (
    PREFIX,
    A,
    B,
    adapter_config_json,
    adapter_names,
    adapter_shapes,
    check_adapter,
    init_adapter,
    linear_layers,
)
from ludus.lm.language_models import LanguageModel

LORA = LoraConfig(rank=3, alpha=6)


def llama() -> PreTrainedModel:
    sizes = {"hidden_size": 12, "intermediate_size": 20, "num_attention_heads": 3, "num_key_value_heads": 1}
    return LlamaForCausalLM(LlamaConfig(vocab_size=30, num_hidden_layers=2, tie_word_embeddings=False, **sizes))


def gpt2() -> PreTrainedModel:
    return GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=8, n_positions=16, vocab_size=30))


@pytest.mark.parametrize("build", [llama, gpt2])
@pytest.mark.parametrize("targets", [None, "own"])
@pytest.mark.filterwarnings("ignore:fan_in_fan_out is set to False")
def test_layers_names_and_shapes_are_those_of_peft(build: Any, targets: str | None) -> None:
    model = build()
    some = None if targets is None else ("q_proj", "down_proj") if build is llama else ("c_attn",)
    lora = LoraConfig(rank=3, targets=some)
    ours = adapter_shapes(model, lora)
    other = get_peft_model(model, PeftConfig(r=3, target_modules=list(some) if some else "all-linear"))
    theirs = {name: tuple(tensor.shape) for name, tensor in get_peft_model_state_dict(other).items()}
    assert ours == theirs


def test_the_output_head_gets_none_and_a_layer_is_counted_once(model: LanguageModel) -> None:
    assert len(adapter_names(model.model, LORA)) == 2 * 7
    assert not any("lm_head" in name for name in adapter_names(llama(), LORA))
    assert linear_layers(llama())["model.layers.1.mlp.down_proj"] == (12, 20)
    assert linear_layers(gpt2())["transformer.h.0.attn.c_attn"] == (24, 8)


def test_a_target_is_a_whole_name_or_its_end() -> None:
    model = llama()
    assert adapter_names(model, LoraConfig(targets=("q_proj",))) == tuple(
        f"model.layers.{layer}.self_attn.q_proj" for layer in (0, 1)
    )
    one = "model.layers.1.mlp.up_proj"
    assert adapter_names(model, LoraConfig(targets=(one,))) == (one,)


def test_a_target_that_is_no_layer_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"no linear layer 'proj'; it has: down_proj, gate_proj, k_proj, o_proj"):
        adapter_names(llama(), LoraConfig(targets=("q_proj", "proj")))


def test_a_new_adapter_begins_as_in_peft() -> None:
    model = llama()
    tensors = init_adapter(model, LoraConfig(rank=64), seed=0)
    assert {name: tensor.shape for name, tensor in tensors.items()} == adapter_shapes(model, LoraConfig(rank=64))
    assert {tensor.dtype for tensor in tensors.values()} == {np.dtype(np.float32)}
    theirs = get_peft_model_state_dict(get_peft_model(model, PeftConfig(r=64, target_modules="all-linear")))
    for name, tensor in tensors.items():
        if name.endswith(B):
            assert not tensor.any()
        else:
            bound = 1 / np.sqrt(tensor.shape[1])
            assert 0.9 * bound < np.abs(tensor).max() <= bound
            assert 0.9 < tensor.std() / theirs[name].numpy().std() < 1.1


def test_an_adapter_depends_on_its_seed_and_its_names_alone(model: LanguageModel) -> None:
    first, again = (init_adapter(model.model, LORA, seed=2**62 + 1) for _ in range(2))
    other = init_adapter(model.model, LORA, seed=1)
    few = init_adapter(model.model, LoraConfig(rank=3, targets=("k_proj",)), seed=2**62 + 1)
    name = f"{PREFIX}model.layers.1.self_attn.k_proj{A}"
    np.testing.assert_array_equal(first[name], again[name])
    np.testing.assert_array_equal(first[name], few[name])
    assert (first[name] != other[name]).any()
    assert (first[name] != first[name.replace("layers.1", "layers.0")]).any()


@pytest.mark.parametrize("build", [llama, gpt2])
@pytest.mark.filterwarnings("ignore:fan_in_fan_out is set to False")
def test_peft_reads_it_and_adds_what_its_definition_says(build: Any, tmp_path: Path) -> None:
    model, rng = build(), np.random.default_rng(0)
    tensors = {name: rng.normal(size=size).astype(np.float32) for name, size in adapter_shapes(model, LORA).items()}
    save_file(tensors, tmp_path / "adapter_model.safetensors")
    (tmp_path / "adapter_config.json").write_text(json.dumps(adapter_config_json("m", LORA, tensors)))
    prompt = torch.tensor([[1, 2, 3, 4]])
    theirs = PeftModel.from_pretrained(copy.deepcopy(model), tmp_path).eval()(prompt).logits
    with torch.no_grad():
        for name in adapter_names(model, LORA):
            a, b = (torch.from_numpy(tensors[PREFIX + name + side]) for side in (A, B))
            change = LORA.alpha / LORA.rank * b @ a
            model.get_submodule(name).weight += change.T if build is gpt2 else change
    torch.testing.assert_close(model.eval()(prompt).logits, theirs, rtol=1e-4, atol=1e-4)


# -- what does not fit -------------------------------------------------------------------------------------------------


def spoilt(tensors: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """Change one layer's tensors: `None` takes one away."""
    made = dict(tensors)
    for side, tensor in changes.items():
        made[f"{PREFIX}model.layers.1.mlp.up_proj.lora_{side}.weight"] = tensor
    return {name: tensor for name, tensor in made.items() if tensor is not None}


def test_a_fitting_adapter_passes_with_and_without_a_critic(model: LanguageModel) -> None:
    tensors = init_adapter(model.model, LORA, seed=0)
    check_adapter(tensors, model.model, LORA)
    check_adapter({**tensors, "value_head.weight": np.zeros((1, 32))}, model.model, LORA)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"A": np.zeros((4, 32))}, r"up_proj.lora_A.weight has shape \[4, 32\], the model needs \[3, 32\]"),
        ({"B": np.zeros((96, 4))}, r"up_proj.lora_B.weight has shape \[96, 4\], the model needs \[96, 3\]"),
        ({"B": np.zeros(3)}, r"has shape \[3\]"),
        ({"A": None}, r"there is no base_model.model.model.layers.1.mlp.up_proj.lora_A.weight"),
        (
            {"X": np.zeros(1)},
            r"there is base_model.model.model.layers.1.mlp.up_proj.lora_X.weight, which belongs to no",
        ),
    ],
)
def test_an_adapter_that_does_not_fit_is_one_sentence(model: LanguageModel, changes: Any, said: str) -> None:
    tensors = spoilt(init_adapter(model.model, LORA, seed=0), **changes)
    with pytest.raises(ConfigError, match=said):
        check_adapter(tensors, model.model, LORA)


def test_an_adapter_of_a_larger_model_does_not_fit(model: LanguageModel) -> None:
    with pytest.raises(ConfigError, match="does not fit the model"):
        check_adapter(init_adapter(llama(), LORA, seed=0), model.model, LORA)


def test_the_config_for_peft_names_layers_by_their_last_part(model: LanguageModel) -> None:
    tensors = init_adapter(model.model, LORA, seed=0)
    made = adapter_config_json("models/tiny", LORA, tensors)
    assert made["target_modules"] == ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"]
    assert (made["r"], made["lora_alpha"], made["base_model_name_or_path"]) == (3, 6, "models/tiny")
    odd = adapter_config_json("m", LoraConfig(alpha=2.5, targets=("q_proj",)), tensors)
    assert (odd["lora_alpha"], odd["target_modules"]) == (2.5, ["q_proj"])
