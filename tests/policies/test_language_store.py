"""Published language-model policies: folders that peft and transformers read as they are."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from ludus.config import LanguageModelConfig, LoraConfig, MlpConfig
from ludus.errors import ConfigError, CorruptRecord, StorageError
from ludus.lm.adapters import PREFIX, A, B, adapter_names, adapter_shapes
from ludus.lm.language_models import LanguageModel, load_language_model
from ludus.lm.language_shape import write_model_folder
from ludus.policies import LanguageModelShape, PolicyShape, PolicyStore, shape_from_json
from ludus.policies.export import export_policy
from ludus.records import PolicyName, PolicyRef, PolicyVersion
from ludus.storage.atomic import directory_hashes

LORA = LoraConfig(rank=3, alpha=6)
PROMPT = torch.tensor([[258, 117, 97, 98, 99, 256, 258, 97]])
HEAD = {"value_head.weight": np.ones((1, 32), np.float32), "value_head.bias": np.zeros(1, np.float32)}


def ref(version: int = 0) -> PolicyRef:
    return PolicyRef(name=PolicyName("main"), version=PolicyVersion(version))


def shape(folder: Path | str, *, lora: LoraConfig | None = LORA, critic: bool = False) -> LanguageModelShape:
    return LanguageModelShape(model=LanguageModelConfig(path=str(folder), lora=lora), critic=critic, games=("g",))


def adapter(model: LanguageModel, lora: LoraConfig = LORA) -> dict[str, np.ndarray]:
    """An adapter that does something."""
    rng = np.random.default_rng(0)
    shapes = adapter_shapes(model.model, lora)
    return {name: rng.normal(scale=0.1, size=size).astype(np.float32) for name, size in shapes.items()}


def parameters(model: LanguageModel) -> dict[str, np.ndarray]:
    """Other values for every parameter."""
    rng = np.random.default_rng(1)
    return {
        name: (parameter + 0.1 * torch.from_numpy(rng.normal(size=parameter.shape))).float().numpy()
        for name, parameter in model.model.named_parameters()
    }


def merged_logits(model: LanguageModel, tensors: dict[str, np.ndarray], lora: LoraConfig) -> torch.Tensor:
    """Logits of a model whose matrices have the adapter added in."""
    fresh = load_language_model(LanguageModelConfig(path=model.path)).model
    for name in adapter_names(fresh, lora):
        a, b = (torch.from_numpy(tensors[PREFIX + name + side]) for side in (A, B))
        fresh.get_submodule(name).weight += lora.alpha / lora.rank * b @ a
    return fresh(PROMPT).logits


@pytest.fixture
def store(tmp_path: Path) -> PolicyStore:
    return PolicyStore(tmp_path / "policies")


# -- adapters ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lora", [LORA, LoraConfig(rank=2, alpha=1.5, targets=("v_proj", "gate_proj"))])
def test_a_published_adapter_loads_with_peft_and_changes_the_model_as_it_should(
    store: PolicyStore, model: LanguageModel, tiny: Path, lora: LoraConfig
) -> None:
    tensors = adapter(model, lora)
    store.publish(ref(), tensors | HEAD, shape(tiny, lora=lora, critic=True), step=5)
    base = AutoModelForCausalLM.from_pretrained(tiny)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # peft warns of tensors that are missing or too many
        loaded = PeftModel.from_pretrained(base, store.path(ref()))
    expected = merged_logits(model, tensors, lora)
    torch.testing.assert_close(loaded(PROMPT).logits, expected, rtol=1e-4, atol=1e-5)
    assert (expected - model.model(PROMPT).logits).abs().max() > 1e-3


def test_the_adapters_folder_says_where_its_model_is(
    store: PolicyStore, model: LanguageModel, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tiny.parent)
    store.publish(ref(), adapter(model), shape("tiny"), step=0)
    config = json.loads((store.path(ref()) / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(tiny.resolve())
    assert sorted(path.name for path in store.path(ref()).iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
        "policy.json",
    ]


# -- whole models ------------------------------------------------------------------------------------------------------


def test_a_published_model_loads_with_transformers_and_with_ludus(
    store: PolicyStore, model: LanguageModel, tiny: Path, load: Callable[..., LanguageModel]
) -> None:
    tensors = parameters(model)
    store.publish(ref(), tensors | HEAD, shape(tiny, lora=None, critic=True), step=5)
    folder = store.path(ref())
    for loaded in (AutoModelForCausalLM.from_pretrained(folder), load(folder).model):
        assert loaded.dtype == torch.float32
        found = dict(loaded.named_parameters())
        assert all(np.array_equal(found[name].detach().numpy(), tensor) for name, tensor in tensors.items())
    talk = [{"role": "user", "content": "hello"}]
    theirs = AutoTokenizer.from_pretrained(folder).apply_chat_template(talk, return_dict=False)
    assert theirs == model.tokenizer.apply_chat_template(talk, return_dict=False)


def test_a_published_model_is_used_in_the_type_it_was_trained_in(
    store: PolicyStore, model: LanguageModel, tiny: Path
) -> None:
    config = LanguageModelConfig(path=str(tiny), lora=None, dtype="bfloat16")
    store.publish(ref(), parameters(model), LanguageModelShape(model=config, critic=False, games=()), step=0)
    assert AutoModelForCausalLM.from_pretrained(store.path(ref())).dtype == torch.bfloat16


def test_a_model_whose_base_is_gone_is_not_published(store: PolicyStore, model: LanguageModel, copy: Path) -> None:
    made = shape(copy, lora=None)
    shutil.rmtree(copy)
    with pytest.raises(ConfigError, match="no model folder"):
        store.publish(ref(), parameters(model), made, step=0)
    assert not store.has(ref())
    assert store.names() == []


def test_a_model_can_be_written_beside_a_run(
    model: LanguageModel, tmp_path: Path, load: Callable[..., LanguageModel]
) -> None:
    tensors = parameters(model)
    write_model_folder(tmp_path / "warm", model, tensors)
    write_model_folder(tmp_path / "warm", model, tensors)
    loaded = load(tmp_path / "warm")
    assert all(np.array_equal(p.detach().numpy(), tensors[name]) for name, p in loaded.model.named_parameters())
    with pytest.raises(ConfigError, match="holds another model"):
        write_model_folder(tmp_path / "warm", model, {**tensors, "model.norm.weight": np.zeros(32, np.float32)})


# -- both --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lora", [LORA, None])
@pytest.mark.parametrize("critic", [True, False])
def test_a_version_loads_as_it_was_published(
    store: PolicyStore, model: LanguageModel, tiny: Path, lora: LoraConfig | None, critic: bool
) -> None:
    tensors = (adapter(model) if lora else parameters(model)) | (HEAD if critic else {})
    made = shape(tiny, lora=lora, critic=critic)
    digest = store.publish(ref(), tensors, made, step=7)
    assert store.publish(ref(), tensors, made, step=7) == digest
    loaded = store.load(ref(), LanguageModelShape)
    assert (loaded.shape, loaded.step, loaded.weights_hash) == (made, 7, digest)
    assert loaded.weights.keys() == tensors.keys()
    assert all(np.array_equal(loaded.weights[name], tensor) for name, tensor in tensors.items())
    assert (store.path(ref()) / "value_head.safetensors").exists() == critic
    with pytest.raises(StorageError, match="never changes"):
        store.publish(ref(), {name: tensor + 1 for name, tensor in tensors.items()}, made, step=7)


@pytest.mark.parametrize("name", ["adapter_model.safetensors", "value_head.safetensors", "policy.json"])
@pytest.mark.parametrize("damage", ["flip", "remove"])
def test_a_damaged_version_is_never_played(
    store: PolicyStore, model: LanguageModel, tiny: Path, name: str, damage: str
) -> None:
    store.publish(ref(), adapter(model) | HEAD, shape(tiny, critic=True), step=0)
    path = store.path(ref()) / name
    content = bytearray(path.read_bytes())
    content[-8] ^= 0xFF
    path.unlink() if damage == "remove" else path.write_bytes(content)
    with pytest.raises(StorageError):
        store.load(ref())


@pytest.mark.parametrize("change", [{"model": {"path": 3}}, {"model": "x"}, {"model": None, "critic": 1}, {"games": 4}])
def test_a_card_that_makes_no_sense_is_corrupt(
    store: PolicyStore, model: LanguageModel, tiny: Path, change: dict[str, Any]
) -> None:
    store.publish(ref(), adapter(model), shape(tiny), step=0)
    card = store.path(ref()) / "policy.json"
    card.write_text(json.dumps(json.loads(card.read_text()) | change))
    with pytest.raises(CorruptRecord, match="does not say what the weights are for"):
        store.load(ref())
    card.write_text(json.dumps({"format": 1, "weights_hash": ""}))
    with pytest.raises(CorruptRecord, match="network or model"):
        store.load(ref())


def test_tensors_that_have_no_place_are_refused_before_anything_is_written(
    store: PolicyStore, model: LanguageModel, tiny: Path
) -> None:
    with pytest.raises(StorageError, match=r"no place for the tensor 'value_head.weight'"):
        store.publish(ref(), adapter(model) | HEAD, shape(tiny, critic=False), step=0)
    assert store.names() == []


def test_both_kinds_of_policies_live_in_one_store(store: PolicyStore, model: LanguageModel, tiny: Path) -> None:
    network = PolicyShape(
        network=MlpConfig(hidden=(4,)), observation_shape=(3,), actions=2, layout="channels_last", games=("g",)
    )
    store.publish(ref(0), adapter(model), shape(tiny), step=0)
    store.publish(ref(1), {"w": np.zeros(3, np.float32)}, network, step=0)
    store.publish(ref(2), adapter(model), shape(tiny), step=0)
    assert [type(store.load(version).shape) for version in store.versions("main")] == [
        LanguageModelShape,
        PolicyShape,
        LanguageModelShape,
    ]
    with pytest.raises(StorageError, match=r"main@0 has a LanguageModelShape where a PolicyShape is needed"):
        store.load(ref(0), PolicyShape)
    assert store.prune("main", [ref(1)]) == [ref(0)]
    assert store.versions("main") == [ref(1), ref(2)]


@pytest.mark.parametrize("lora", [LORA, None])
def test_an_export_is_the_same_folder(
    store: PolicyStore, model: LanguageModel, tiny: Path, tmp_path: Path, lora: LoraConfig | None
) -> None:
    store.publish(ref(), adapter(model) if lora else parameters(model), shape(tiny, lora=lora), step=0)
    export_policy(store, ref(), tmp_path / "out")
    assert directory_hashes(tmp_path / "out") == directory_hashes(store.path(ref()))


@pytest.mark.parametrize("lora", [None, LORA, LoraConfig(targets=("q_proj", "v_proj"), alpha=0.5)])
def test_a_shape_survives_json(lora: LoraConfig | None) -> None:
    config = LanguageModelConfig(path="Qwen/Qwen3-0.6B", lora=lora, dtype="bfloat16", context=77)
    made = LanguageModelShape(model=config, critic=True, games=("a", "b"))
    assert shape_from_json(json.loads(json.dumps(made.to_json()))) == made
