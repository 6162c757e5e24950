"""Tiny language models of all families with random weights, their versions, and what peft makes of those."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray

from ludus.config import LanguageModelConfig, LoraConfig
from ludus.inference.protocol import Request, Sampling
from ludus.lm.adapters import init_adapter
from ludus.lm.language_models import LanguageModel, load_language_model
from ludus.lm.tiny_model import make_tiny_model
from ludus.records import PolicyName, PolicyRef, PolicyVersion

Tensors = Mapping[str, NDArray[Any]]
LORA = LoraConfig(rank=4, alpha=8.0)
CONTEXT = 256

SIZES = {
    "vocab_size": 259,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3": ("Qwen3", {"head_dim": 24, "tie_word_embeddings": True}),
    "qwen3 with biases and its own head": ("Qwen3", {"attention_bias": True, "tie_word_embeddings": False}),
    "llama": ("Llama", {}),
    "llama, one key for all heads": ("Llama", {"num_key_value_heads": 1}),
    "llama, a key for each head": ("Llama", {"num_key_value_heads": 4}),
    "llama with biases": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "llama 3 positions": ("Llama", {"rope_parameters": LLAMA3}),
    "linear positions": ("Llama", {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}}),
    "yarn positions": (
        "Qwen3",
        {
            "rope_parameters": {
                "rope_type": "yarn",
                "factor": 4.0,
                "rope_theta": 10000.0,
                "original_max_position_embeddings": 64,
            }
        },
    ),
    "qwen2": ("Qwen2", {}),
    "mistral": ("Mistral", {"sliding_window": None}),
    "mistral with a window as long as the context": ("Mistral", {"sliding_window": CONTEXT}),
}
"""Class and options, besides `SIZES`, of every kind of model that the decoder covers."""


def main(version: int = 0) -> PolicyRef:
    return PolicyRef(name=PolicyName("main"), version=PolicyVersion(version))


def ask(prompt: Iterable[int], *, max_tokens: int = 8, seed: int = 0, **fields: Any) -> Request:
    sampling = {name: fields.pop(name) for name in ("temperature", "top_p", "top_k", "stop_tokens") if name in fields}
    return Request(
        **{
            "prompt": tuple(prompt),
            "policy": main(),
            "sampling": Sampling(max_tokens=max_tokens, **sampling),
            "seed": seed,
            **fields,
        }
    )


def random_model(kind: str) -> Any:
    """A model of a family with random weights, norms and biases included."""
    name, options = FAMILIES[kind]
    return disturbed(_build(name, **{**SIZES, **options}))


def random_gpt2() -> Any:
    sizes = {"vocab_size": 259, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": CONTEXT}
    return disturbed(_build("GPT2", **sizes, bos_token_id=257, eos_token_id=257))


def disturbed(model: Any) -> Any:
    """Norms begin at 1 and biases at 0 everywhere; a mistake with them would not show."""
    generator = torch.Generator().manual_seed(1)
    for name, parameter in model.named_parameters():
        if "norm" in name or "ln_" in name or name.endswith("bias"):
            parameter.data += 0.2 * torch.randn(parameter.shape, generator=generator)
    return model.eval().requires_grad_(False)


def _build(name: str, **options: Any) -> Any:
    config = getattr(transformers, f"{name}Config")(**options)
    kind = getattr(transformers, f"{name}ForCausalLM", None) or getattr(transformers, f"{name}LMHeadModel")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return kind(config)


def as_language_model(model: Any, tokenizer: Any) -> LanguageModel:
    return LanguageModel(model=model, tokenizer=tokenizer, context=CONTEXT, path="tests/random", folder=Path())


def tiny_language_model(folder: Path) -> LanguageModel:
    made = make_tiny_model(folder, layers=3, width=64, context=CONTEXT)
    loaded = load_language_model(LanguageModelConfig(path=str(made)))
    disturbed(loaded.model)
    return loaded


def random_adapter(model: Any, seed: int, *, lora: LoraConfig = LORA, critic: bool = False) -> dict[str, NDArray[Any]]:
    """An adapter that changes what the model says."""
    rng = np.random.default_rng(seed)
    tensors: dict[str, NDArray[Any]] = {
        name: array if ".lora_A." in name else rng.normal(0, 0.1, array.shape).astype(np.float32)
        for name, array in init_adapter(model, lora, seed).items()
    }
    if critic:
        tensors["value_head.weight"] = rng.normal(size=(1, 64)).astype(np.float32)
        tensors["value_head.bias"] = rng.normal(size=1).astype(np.float32)
    return tensors


def with_peft(model: Any, tensors: Tensors, *, lora: LoraConfig = LORA) -> Any:
    """The model with a version's adapter, by peft."""
    import peft

    targets = sorted({name.split(".lora_")[0].rpartition(".")[2] for name in tensors if ".lora_" in name})
    config = peft.LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        target_modules=targets,
        task_type="CAUSAL_LM",
        fan_in_fan_out=model.config.model_type == "gpt2",
    )
    adapted = peft.get_peft_model(copy.deepcopy(model), config)
    own = {name: torch.from_numpy(array) for name, array in tensors.items() if ".lora_" in name}
    peft.set_peft_model_state_dict(adapted, own)
    return adapted.eval()
