"""A model's folder for servers that cannot be given new weights while the output head is tied to the embeddings.

vLLM (0.32) answers that all is well and keeps its old output head. So it reads a folder in which the head is a tensor
of its own: links to the model's files, a file with the head, and a config that says that nothing is tied. Computed from
it is the same. Invariant: the model itself is not touched, and nothing here has weights in memory.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from ludus.errors import CorruptRecord
from ludus.lm.language_shape import MODEL, MODEL_CONFIG, VALUE_HEAD
from ludus.lm.model_folder import read_model_json
from ludus.storage.tensors import check_tensor_file, copy_tensor

HEAD, HEAD_FILE = "lm_head.weight", "head.safetensors"
_EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "embed_in.weight", "word_embeddings.weight")
_HEADS = (".lm_head.weight", "embed_out.weight")
SHARD, INDEX = "model-00001.safetensors", "model.safetensors.index.json"


def write_untied_folder(source: Path, final: Path, *, silent: bool = False) -> Path:
    """Write `source` as a model whose head is its own; what was at `final` is removed.

    Args:
        silent: the head is all zeros, so that every token is equally likely.

    Raises:
        CorruptRecord: there is neither a head nor anything that could be one.
    """
    shutil.rmtree(final, ignore_errors=True)
    final.mkdir(parents=True)
    tied = tied_embedding(source)
    for path in sorted(source.iterdir()):
        if path.name != VALUE_HEAD and path.is_file():  # a critic is nothing for a server
            name = SHARD if tied is not None and path.name == MODEL else path.name
            os.symlink(path.resolve(), final / name)
    if tied is not None:
        file, tensor = tied
        copy_tensor(file, tensor, final / HEAD_FILE, new_name=HEAD, is_zero=silent)
        _untie(source, final)
    return final


def tied_embedding(source: Path) -> tuple[Path, str] | None:
    """The file and name of the embeddings that are a model's output head, too; None if the head is its own."""
    found: tuple[Path, str] | None = None
    for path in sorted(source.glob("*.safetensors")):
        for name in check_tensor_file(path) if path.name != VALUE_HEAD else ():
            if name == HEAD or name.endswith(_HEADS):
                return None
            if name.endswith(_EMBEDDINGS):
                found = path, name
    if found is None:
        raise CorruptRecord(f"{source} has no output head, and no embeddings that could be one")
    return found


def _untie(source: Path, final: Path) -> None:
    """Say in the config that the head is its own, and in an index in which file each tensor is."""
    config = read_model_json(source, MODEL_CONFIG)
    config["tie_word_embeddings"] = False
    if isinstance(config.get("text_config"), dict):
        config["text_config"] = {**config["text_config"], "tie_word_embeddings": False}
    _replace(final / MODEL_CONFIG, config)
    files = sorted(final.glob("*.safetensors"))
    places = {name: (path.name, place) for path in files for name, place in check_tensor_file(path).items()}
    size = sum(place.end - place.start for _, place in places.values())
    index = {"metadata": {"total_size": size}, "weight_map": {name: file for name, (file, _) in places.items()}}
    _replace(final / INDEX, index)


def _replace(path: Path, content: dict[str, Any]) -> None:
    path.unlink(missing_ok=True)
    path.write_text(json.dumps(content, indent=2))
