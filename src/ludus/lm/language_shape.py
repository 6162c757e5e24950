"""What a language-model policy's weights must fit, and how a version of it lies on disk.

With LoRA a version is a peft adapter (`adapter_model.safetensors`, `adapter_config.json`); without, it is a whole model
(`model.safetensors` beside the base model's config and tokenizer). A critic's head lies in `value_head.safetensors`.

Invariant: a version's folder is what peft, transformers and vLLM read as it is, without ludus.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from pydantic import TypeAdapter

from ludus.config import LanguageModelConfig
from ludus.lm.adapters import VALUE_PREFIX, adapter_config_json
from ludus.lm.model_folder import find_model_folder, lasting_name, read_model_json, writing_model
from ludus.storage.atomic import write_bytes
from ludus.storage.tensors import RoundedTensors, save_tensors

if TYPE_CHECKING:
    from ludus.lm.language_models import LanguageModel

ADAPTER, ADAPTER_CONFIG = "adapter_model.safetensors", "adapter_config.json"
MODEL, MODEL_CONFIG = "model.safetensors", "config.json"
VALUE_HEAD = "value_head.safetensors"
_BESIDE = (
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
)
"""Files of a model, besides its weights and config, that whoever loads it needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModelShape:
    """Which base model, trained how, with a critic or without."""

    model: LanguageModelConfig
    critic: bool
    games: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """JSON from which `from_json` restores the shape."""
        values: dict[str, Any] = _SHAPE.dump_python(self, mode="json")
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> LanguageModelShape:
        """The inverse of `to_json`; other keys are passed over."""
        return _SHAPE.validate_python(dict(values))

    def standing_on(self, base: Path) -> LanguageModelShape:
        """The same on the base model that a run made for itself, if it did; it may have been moved since."""
        return replace(self, model=self.model.model_copy(update={"path": str(base)})) if base.is_dir() else self

    def tensor_files(self) -> tuple[str, ...]:
        """The files that hold weights, the policy's own first."""
        own = MODEL if self.model.lora is None else ADAPTER
        return (own, VALUE_HEAD) if self.critic else (own,)

    def file_of(self, tensor: str) -> str:
        """The file that holds a tensor."""
        return VALUE_HEAD if tensor.startswith(VALUE_PREFIX) else self.tensor_files()[0]

    def as_published(self, weights: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """Weights as a version has them."""
        is_rounded = self.model.lora is None and self.model.publish_dtype == "bfloat16"
        return RoundedTensors(weights, besides=VALUE_PREFIX) if is_rounded else weights

    def metadata(self) -> dict[str, str]:
        """What transformers wants to see in a safetensors file."""
        return {"format": "pt"}

    def companions(self, tensors: Mapping[str, Any]) -> dict[str, bytes]:
        """The files without which the weights say nothing to other programs, by name."""
        lora = self.model.lora
        if lora is not None:
            return {ADAPTER_CONFIG: _json(adapter_config_json(lasting_name(self.model.path), lora, tensors))}
        return _base_model_files(self.model.path, self.model.dtype)


_SHAPE = TypeAdapter(LanguageModelShape)


def write_model_folder(final: Path, model: LanguageModel, weights: Mapping[str, NDArray[Any]]) -> None:
    """Write other weights for `model` as a model of its own. Raises ConfigError if `final` holds something else."""
    with writing_model(final) as staging:
        save_tensors(staging / MODEL, weights, {"format": "pt"})
        for name, content in _model_files(model.folder, "float32").items():
            write_bytes(staging / name, content)


@lru_cache(maxsize=4)
def _base_model_files(path: str, dtype: str) -> dict[str, bytes]:
    """Read once: every version of a whole model has the same files beside its weights."""
    return _model_files(find_model_folder(path), dtype)


def _model_files(folder: Path, dtype: str) -> dict[str, bytes]:
    """What lies beside a model's weights, by name; the config says in which type they are to be used."""
    beside = {name: (folder / name).read_bytes() for name in _BESIDE if (folder / name).is_file()}
    settings = read_model_json(folder, MODEL_CONFIG) | {"dtype": dtype}
    settings.pop("torch_dtype", None)
    return {**beside, MODEL_CONFIG: _json(settings)}


def _json(values: Mapping[str, Any]) -> bytes:
    return (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode()
