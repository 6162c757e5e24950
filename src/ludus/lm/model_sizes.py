"""How large a language model is, from its config.json alone: no weights, no PyTorch, no network.

Covered: decoders with gated MLPs and grouped attention (Llama, Qwen2, Qwen3, Mistral, SmolLM3 and their like), dense or
with experts (Mixtral, Qwen3-MoE). Others are refused. Invariant: the parameters of a covered family are counted
exactly; a test compares with transformers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ludus.errors import ConfigError
from ludus.lm.model_folder import settings_file

DENSE = ("llama", "mistral", "qwen2", "qwen3", "smollm3")
EXPERTS = ("mixtral", "qwen3_moe")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSizes:
    """Widths and counts of one model."""

    layers: int
    width: int
    queries: int
    """Width of all query heads together."""
    keys: int
    """Width of all key heads together; values are as wide."""
    head: int
    """Width of one head."""
    inner: int
    """Width of the MLP, or of the experts that one token uses together."""
    vocabulary: int
    is_tied: bool
    context: int
    """Tokens that the model was made for."""
    experts: int = 0
    """Of each layer; 0: one MLP."""
    expert_inner: int = 0
    has_head_norms: bool = False
    qkv_biases: bool = False
    other_biases: bool = False
    """Of the attention's output and the MLP."""

    @property
    def layer_parameters(self) -> int:
        """Of one layer."""
        width, queries, keys = self.width, self.queries, self.keys
        attention = width * (queries + 2 * keys) + queries * width
        biases = (queries + 2 * keys) * self.qkv_biases + width * self.other_biases
        norms = 2 * width + 2 * self.head * self.has_head_norms
        if self.experts:
            return attention + biases + norms + self.experts * (3 * width * self.expert_inner + width)
        return attention + biases + norms + 3 * width * self.inner

    @property
    def root_parameters(self) -> int:
        """Outside of the layers: embeddings, head, last norm."""
        return self.vocabulary * self.width * (1 if self.is_tied else 2) + self.width

    @property
    def parameters(self) -> int:
        """All of them."""
        return self.layers * self.layer_parameters + self.root_parameters

    def adapter_parameters(self, rank: int) -> int:
        """Of adapters beside every linear layer but the head; experts have none."""
        width, queries, keys = self.width, self.queries, self.keys
        ends = 2 * (width + queries) + 2 * (width + keys)
        return self.layers * rank * (ends + (0 if self.experts else 3 * (width + self.inner)))


def sizes_of(path: str, file: Path | None = None) -> ModelSizes:
    """The sizes of a model that a config names; `file` has its config.json where it is not on this machine.

    Raises:
        ConfigError: neither is there, or the family is not covered.
    """
    if file is not None:
        return read_sizes(_read_json(file), str(file))
    if path in KNOWN:
        return KNOWN[path]
    found = settings_file(path)
    if found is None:
        known = f"{path} is not on this machine, and nothing is fetched to plan"
        raise ConfigError(f"{known}; give its config.json with --model-config FILE")
    return read_sizes(_read_json(found), path)


def read_sizes(settings: Mapping[str, Any], name: str) -> ModelSizes:
    """The sizes in a config.json. Raises ConfigError if they are not there or the family is another."""
    kind = settings.get("model_type")
    if kind not in (*DENSE, *EXPERTS):
        raise ConfigError(f"{name} is of the family {kind!r}; the planner knows {', '.join((*DENSE, *EXPERTS))}")
    try:
        return _sizes(settings, str(kind))
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise ConfigError(f"{name} has sizes that cannot be read: {type(error).__name__}: {error}") from None


def _sizes(settings: Mapping[str, Any], kind: str) -> ModelSizes:
    width, heads = int(settings["hidden_size"]), int(settings["num_attention_heads"])
    head = int(settings.get("head_dim") or width // heads)
    experts = int(settings.get("num_local_experts") or settings.get("num_experts") or 0) if kind in EXPERTS else 0
    inner = int(settings["intermediate_size"])
    expert_inner = int(settings.get("moe_intermediate_size") or inner) if experts else 0
    used = int(settings.get("num_experts_per_tok") or 1)
    return ModelSizes(
        layers=int(settings["num_hidden_layers"]),
        width=width,
        queries=heads * head,
        keys=int(settings.get("num_key_value_heads") or heads) * head,
        head=head,
        inner=used * expert_inner if experts else inner,
        vocabulary=int(settings["vocab_size"]),
        is_tied=bool(settings.get("tie_word_embeddings", kind == "smollm3")),
        context=int(settings.get("max_position_embeddings") or 4096),
        experts=experts,
        expert_inner=expert_inner,
        has_head_norms=kind in ("qwen3", "qwen3_moe"),
        qkv_biases=kind == "qwen2" or bool(settings.get("attention_bias")),
        other_biases=kind != "qwen2" and bool(settings.get("attention_bias")),
    )


def _read_json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read as JSON: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{file} is no config.json: it holds no object")
    inner = found.get("text_config")
    return {**found, **inner} if isinstance(inner, dict) else found


def _qwen3(layers: int, width: int, heads: int, keys: int, inner: int, *, tied: bool = False) -> ModelSizes:
    return ModelSizes(
        layers=layers,
        width=width,
        queries=128 * heads,
        keys=128 * keys,
        head=128,
        inner=inner,
        vocabulary=151_936,
        is_tied=tied,
        context=40_960,
        has_head_norms=True,
    )


def _qwen2(
    layers: int, width: int, heads: int, keys: int, inner: int, *, vocabulary: int = 151_936, tied: bool = False
) -> ModelSizes:
    head = width // heads
    return ModelSizes(
        layers=layers,
        width=width,
        queries=width,
        keys=head * keys,
        head=head,
        inner=inner,
        vocabulary=vocabulary,
        is_tied=tied,
        context=32_768,
        qkv_biases=True,
    )


def _llama(layers: int, width: int, heads: int, keys: int, inner: int, vocabulary: int, *, tied: bool) -> ModelSizes:
    head = width // heads
    return ModelSizes(
        layers=layers,
        width=width,
        queries=width,
        keys=head * keys,
        head=head,
        inner=inner,
        vocabulary=vocabulary,
        is_tied=tied,
        context=8192 if vocabulary < 100_000 else 131_072,
    )


KNOWN: dict[str, ModelSizes] = {
    "Qwen/Qwen3-0.6B": _qwen3(28, 1024, 16, 8, 3072, tied=True),
    "Qwen/Qwen3-1.7B": _qwen3(28, 2048, 16, 8, 6144, tied=True),
    "Qwen/Qwen3-4B": _qwen3(36, 2560, 32, 8, 9728, tied=True),
    "Qwen/Qwen3-8B": _qwen3(36, 4096, 32, 8, 12_288),
    "Qwen/Qwen3-14B": _qwen3(40, 5120, 40, 8, 17_408),
    "Qwen/Qwen3-32B": _qwen3(64, 5120, 64, 8, 25_600),
    "Qwen/Qwen2.5-0.5B-Instruct": _qwen2(24, 896, 14, 2, 4864, tied=True),
    "Qwen/Qwen2.5-1.5B-Instruct": _qwen2(28, 1536, 12, 2, 8960, tied=True),
    "Qwen/Qwen2.5-3B-Instruct": _qwen2(36, 2048, 16, 2, 11_008, tied=True),
    "Qwen/Qwen2.5-7B-Instruct": _qwen2(28, 3584, 28, 4, 18_944, vocabulary=152_064),
    "Qwen/Qwen2.5-14B-Instruct": _qwen2(48, 5120, 40, 8, 13_824, vocabulary=152_064),
    "Qwen/Qwen2.5-32B-Instruct": _qwen2(64, 5120, 40, 8, 27_648, vocabulary=152_064),
    "meta-llama/Llama-3.2-1B-Instruct": _llama(16, 2048, 32, 8, 8192, 128_256, tied=True),
    "meta-llama/Llama-3.2-3B-Instruct": _llama(28, 3072, 24, 8, 8192, 128_256, tied=True),
    "meta-llama/Llama-3.1-8B-Instruct": _llama(32, 4096, 32, 8, 14_336, 128_256, tied=False),
    "HuggingFaceTB/SmolLM2-135M-Instruct": _llama(30, 576, 9, 3, 1536, 49_152, tied=True),
    "HuggingFaceTB/SmolLM2-360M-Instruct": _llama(32, 960, 15, 5, 2560, 49_152, tied=True),
    "HuggingFaceTB/SmolLM2-1.7B-Instruct": _llama(24, 2048, 32, 32, 8192, 49_152, tied=True),
    "ludus/smollm2": _llama(30, 576, 9, 3, 1536, 49_152, tied=True),
}
"""Models whose sizes are known without their files."""
