"""Where the rows of a taskset come from: which reader, by format and path.

To add a format: a function that yields `Row` and `BadRow`, and a line in `read_rows`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from ludus.config import TasksetConfig
from ludus.errors import ConfigError
from ludus.tasks import arithmetic
from ludus.tasks.hub_rows import read_hub
from ludus.tasks.json_lines import read_json_lines
from ludus.tasks.parquet_rows import read_parquet
from ludus.tasks.rows import BadRow, Row

Format = Literal["built_in", "jsonl", "parquet", "hub"]
_SUFFIXES: dict[str, Format] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".parquet": "parquet"}
_HUB_ID = re.compile(r"[\w.-]{1,96}(/[\w.-]{1,96})?", re.ASCII)


def read_rows(config: TasksetConfig) -> Iterator[Row | BadRow]:
    """Every row of a taskset as its file has it.

    Raises:
        ConfigError: there is no such file, or it is of another kind than asked for.
    """
    found = find_format(config)
    if found in ("jsonl", "parquet"):
        _check_file(config)
    if found != "hub" and config.subset is not None:
        raise ConfigError(f"subset: {config.path} has none; leave it out")
    match found:
        case "built_in":
            return arithmetic.read_arithmetic(config.path, config.split)
        case "jsonl":
            return read_json_lines(Path(config.path))
        case "parquet":
            return read_parquet(Path(config.path), tuple(config.fields.values()))
        case "hub":
            paths = tuple(config.fields.values())
            return read_hub(config.path, split=config.split, subset=config.subset, paths=paths)


def find_format(config: TasksetConfig) -> Format:
    """What the path is."""
    path = config.path
    if path.partition("?")[0] == arithmetic.NAME:
        return "built_in"
    if config.format != "auto":
        return config.format
    if path.startswith("ludus/"):
        raise ConfigError(f"path: ludus makes no taskset {path!r} itself; it has {arithmetic.NAME}")
    if Path(path).suffix in _SUFFIXES:
        return _SUFFIXES[Path(path).suffix]
    if Path(path).is_dir():
        return "hub"
    if Path(path).exists():
        raise ConfigError(f"path: {path} has no known ending ({', '.join(_SUFFIXES)}); say what it is with format")
    if _HUB_ID.fullmatch(path):
        return "hub"
    raise ConfigError(f"path: {path}: no such file or folder, and no id of a dataset either")


def _check_file(config: TasksetConfig) -> None:
    path = Path(config.path)
    if not path.exists():
        raise ConfigError(f"path: {path}: no such file")
    if not path.is_file():
        raise ConfigError(f"path: {path} is not a plain file")
    if config.split is not None:
        raise ConfigError(f"split: {path} is one file and has no splits; leave it out")
    if path.suffix == ".json" and _opens_a_list(path):
        raise ConfigError(f"path: {path} is one JSON list; expected JSON lines (jq -c '.[]' {path} makes them)")


def _opens_a_list(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")
