"""Where a language model's files are, which folders are refused, and how one is written: whole or not at all.

Reads JSON only: no PyTorch, no weights.

Invariant: a folder that passed holds weights as safetensors and asks for no code of its own, so nothing that is loaded
from it can execute. A model of the hub is first copied into the hub's cache, without pickles and without Python
files, and is then a folder like any other.

To refuse something else, write a function of (path, folder) that gives the reason or "", and put it into `_REASONS`,
at the end of this file.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ludus.errors import ConfigError
from ludus.storage.atomic import directory_hashes, ensure_directory, publish_directory, temporary_name
from ludus.storage.filesystem import REAL

BUILT_IN = ("ludus/mini", "ludus/tiny", "ludus/smollm2")
"""Models that ludus brings itself, by names that look like hub ids. They are made or fetched when they are first asked
for, and stay as they are, in the user's cache."""
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?")
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
_FROM_HUB = ["*.safetensors", "*.json", "*.jinja", "*.model", "*.txt"]
_NOT_FROM_HUB = ["*/*", "consolidated*.safetensors"]
"""Folders inside a model are other formats of it; `consolidated` files are a second copy of the weights."""
_VOCABULARIES = ("tokenizer.json", "*.model", "vocab.*", "tekken.json")
ASK_S = 3.0
"""A hub that does not answer within this cannot be reached."""
_MOST_JSON_BYTES = 200_000_000


def find_model_folder(path: str, remedy: str = "") -> Path:
    """The folder that holds the files of a model: that folder itself, a built-in model's, or one of the hub's cache.

    `remedy` says what to do where there is none. Default: make a small one.

    Raises:
        ConfigError: there is no such folder and no such model, or the folder is refused.
    """
    folder = Path(path).expanduser()
    if path in BUILT_IN:
        folder = built_in_folder(path)
    elif not folder.is_dir():
        folder = _from_hub(path, remedy or f"make one with: ludus model make {path}")
    reason = refusal(path, folder)
    if reason:
        raise ConfigError(reason)
    return folder


def built_in_folder(name: str) -> Path:
    """The folder of a built-in model, which is written first if need be."""
    from ludus.lm.fetch_model import fetch_smollm2
    from ludus.lm.tiny_model import make_tiny_model

    folder = _cache_directory() / name.partition("/")[2]
    if (folder / "config.json").is_file():
        return folder
    if name == "ludus/smollm2":
        return fetch_smollm2(folder)
    return make_tiny_model(folder, layers=2, width=64) if name == "ludus/mini" else make_tiny_model(folder)


def _cache_directory() -> Path:
    """Where built-in models are kept on this machine."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "ludus" / "models"


def settings_file(path: str) -> Path | None:
    """The config.json of a model, if it is on this machine. Nothing is fetched."""
    folder = Path(path).expanduser()
    if path in BUILT_IN and path != "ludus/smollm2":
        folder = built_in_folder(path)
    if (folder / "config.json").is_file():
        return folder / "config.json"
    if not _HUB_ID.fullmatch(path):
        return None
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(path, "config.json")
    return Path(found) if isinstance(found, str) else None


def lasting_name(path: str) -> str:
    """What to call a model in a file that others read: a folder's whole name, or the id of a model on the hub."""
    is_folder = path in BUILT_IN or Path(path).expanduser().is_dir()
    return str(find_model_folder(path).resolve()) if is_folder else path


def refusal(path: str, folder: Path) -> str:
    """Why the model in `folder`, which its user calls `path`, is not loaded; empty if it is."""
    return next((found for found in (reason(path, folder) for reason in _REASONS) if found), "")


def read_model_json(folder: Path, name: str) -> dict[str, Any]:
    """One of a model's JSON files; empty if it is not there."""
    file = folder / name
    if not file.is_file():
        return {}
    if file.stat().st_size > _MOST_JSON_BYTES:
        raise ConfigError(f"{file} is larger than {_MOST_JSON_BYTES} bytes; it cannot be a model's {name}")
    try:
        values = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file} is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{file} is not a JSON object")
    return values


def check_free(final: Path) -> None:
    """Refuse a name that belongs to something other than a model, before any work is done for it."""
    if final.exists() and not (final / "config.json").is_file():
        raise ConfigError(f"{final} exists and is not a model; choose another folder")


@contextlib.contextmanager
def writing_model(final: Path) -> Iterator[Path]:
    """A folder to write a model into, which becomes `final` in one step when all went well.

    Writing the same model again is a no-op.

    Raises:
        ConfigError: `final` holds something else; it is left alone.
    """
    check_free(final)
    ensure_directory(final.parent)
    staging = temporary_name(final.parent)
    staging.mkdir()
    try:
        yield staging
        _publish(staging, final)
    finally:
        if staging.exists():
            REAL.remove_tree(staging)


def _publish(staging: Path, final: Path) -> None:
    for file in staging.iterdir():
        file.chmod(0o644)  # some libraries write weights for the owner's eyes only
    try:
        if not final.exists():
            publish_directory(staging, final)
    except OSError:
        if not final.exists():
            raise
    if staging.exists() and directory_hashes(final) != directory_hashes(staging):
        raise ConfigError(f"{final} holds another model already; choose another folder, or remove it first")


def _from_hub(path: str, remedy: str) -> Path:
    if not _HUB_ID.fullmatch(path):
        raise ConfigError(f"no model folder {path}; {remedy}")
    from huggingface_hub.errors import LocalEntryNotFoundError

    # What was downloaded once is used again: a run that is resumed must not find another model.
    with contextlib.suppress(LocalEntryNotFoundError):
        cached = _snapshot(path, is_local=True)
        if not refusal(path, cached):
            return cached
    try:
        return _snapshot(path, is_local=False)
    except Exception as error:  # the hub's client raises its own errors, those of its HTTP library and OSError
        raise ConfigError(
            f"there is no folder {path}, and as a model of the hub {_cause(error)}; download it with a network "
            f"(hf download {path}) and write its folder, or write one of {', '.join(BUILT_IN)}"
        ) from error


def hub_problem(path: str) -> str:
    """Why this machine cannot have a model of the hub; empty if it has it or the hub gives it. Downloads nothing."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return refusal(path, _snapshot(path, is_local=True))
    except LocalEntryNotFoundError:
        pass
    try:
        HfApi().model_info(path, timeout=ASK_S)
    except Exception as error:  # as above
        return _cause(error)
    return ""


def _snapshot(path: str, *, is_local: bool) -> Path:
    from huggingface_hub import snapshot_download

    return Path(
        snapshot_download(path, allow_patterns=_FROM_HUB, ignore_patterns=_NOT_FROM_HUB, local_files_only=is_local)
    )


def _cause(error: Exception) -> str:
    from huggingface_hub.errors import (
        GatedRepoError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    if isinstance(error, GatedRepoError):
        return "it is given only to those who accepted its terms there"
    if isinstance(error, RepositoryNotFoundError):
        return "it is not known there, or it is private"
    if isinstance(error, LocalEntryNotFoundError | OfflineModeIsEnabled):
        return "it is not in the cache, and the hub cannot be reached"
    lines = str(error).strip().splitlines() or [""]
    return f"it could not be had ({type(error).__name__}: {lines[0]})"


def _adapter(path: str, folder: Path) -> str:
    if not (folder / "adapter_config.json").is_file():
        return ""
    base = read_model_json(folder, "adapter_config.json").get("base_model_name_or_path")
    return f"{path} holds an adapter, not a model; give the model below it as path ({base})"


def _no_config(path: str, folder: Path) -> str:
    if (folder / "config.json").is_file():
        return ""
    return f"{path} is not a model in Hugging Face format: there is no config.json in it"


def _remote_code(path: str, folder: Path) -> str:
    for name in ("config.json", "tokenizer_config.json", "generation_config.json"):
        if _has_key(read_model_json(folder, name), "auto_map"):
            return (
                f"{path} asks to run Python code of its own (auto_map in {name}), which ludus never does; "
                "use a model whose architecture transformers knows"
            )
    return ""


def _weights(path: str, folder: Path) -> str:
    names = sorted(file.name for file in folder.iterdir() if file.is_file())
    if any(name.endswith(".safetensors") for name in names):
        return ""
    pickles = [name for name in names if name.endswith(_PICKLES)]
    if pickles:
        return (
            f"{path} holds its weights as pickle ({pickles[0]}), which can execute code when it is read; "
            "save the model as safetensors"
        )
    return f"{path} holds no weights: there is no .safetensors file in it"


def _shards(path: str, folder: Path) -> str:
    shards = read_model_json(folder, "model.safetensors.index.json").get("weight_map", {})
    for name in sorted(set(map(str, shards.values())) if isinstance(shards, Mapping) else {"?"}):
        if Path(name).name != name or not name.endswith(".safetensors"):
            return f"{path} has an index that names {name!r} as weights; only safetensors beside it are read"
        if not (folder / name).is_file():
            return f"{path} is incomplete: its index names {name}, which is not there"
    return ""


def _no_tokenizer(path: str, folder: Path) -> str:
    # transformers would make an empty tokenizer up rather than say that there is none.
    if any(list(folder.glob(pattern)) for pattern in _VOCABULARIES):
        return ""
    return f"{path} holds no tokenizer: there is no tokenizer.json in it"


def _quantised(path: str, folder: Path) -> str:
    if not read_model_json(folder, "config.json").get("quantization_config"):
        return ""
    return f"{path} is quantised (quantization_config in config.json), which ludus does not train; use the full weights"


def _has_key(value: Any, key: str) -> bool:
    if isinstance(value, Mapping):
        return key in value or any(_has_key(inner, key) for inner in value.values())
    return isinstance(value, list) and any(_has_key(inner, key) for inner in value)


_REASONS: tuple[Callable[[str, Path], str], ...] = (
    _adapter,
    _no_config,
    _remote_code,
    _weights,
    _shards,
    _no_tokenizer,
    _quantised,
)
