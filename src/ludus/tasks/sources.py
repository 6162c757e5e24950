"""Where the rows of a taskset come from: which reader, by format and path; and the reader of JSON lines.

To add a format: a function that yields `Row` and `BadRow`, and a line in `read_rows`.

Invariant of JSON lines: whatever the file holds, memory is bounded by the longest line that is accepted, nothing but
`OSError` and `ConfigError` is raised, and every line that is not one sound object is reported with its number. Blank
lines are skipped. Objects in which a key stands twice are refused: readers disagree about what they mean.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal, NoReturn

from ludus.config import TasksetConfig, show
from ludus.errors import ConfigError
from ludus.tasks import arithmetic
from ludus.tasks.rows import MOST_ROW_BYTES, BadRow, Flaw, Row
from ludus.tasks.table_rows import read_hub, read_parquet

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MOST_SKIPPED_BYTES = 2**28
"""A line longer than this ends the reading: the file is not one of lines."""
MOST_BLANK_LINES = 10_000
"""So do this many blank lines in a row."""


def read_json_lines(path: Path) -> Iterator[Row | BadRow]:
    """Every line that is not blank, in order."""
    with path.open("rb") as file:
        for number, line in _numbered_lines(file, path):
            try:
                fields = _parse(line, is_first=number == 1)
            except Flaw as flaw:
                yield BadRow(line=number, reason=str(flaw))
                continue
            if fields is not None:
                yield Row(line=number, fields=fields)


def _numbered_lines(file: BinaryIO, path: Path) -> Iterator[tuple[int, bytes | None]]:
    """Lines by number, counted from 1; None for one that is too long."""
    number = blank = 0
    while line := file.readline(MOST_ROW_BYTES + 1):
        number += 1
        is_whole = line.endswith(b"\n") or len(line) <= MOST_ROW_BYTES
        if not is_whole:
            _skip_line(file, f"{path}:{number}")
        blank = 0 if line.strip() else blank + 1
        if blank > MOST_BLANK_LINES:
            raise ConfigError(f"{path}:{number}: more than {MOST_BLANK_LINES:,} blank lines; this is no file of rows")
        yield number, line if is_whole else None


def _skip_line(file: BinaryIO, place: str) -> None:
    skipped = 0
    while (rest := file.readline(2**20)) and not rest.endswith(b"\n"):
        skipped += len(rest)
        if skipped > MOST_SKIPPED_BYTES:
            raise ConfigError(f"{place}: a line of more than {MOST_SKIPPED_BYTES:,} bytes; this is no file of lines")


def _parse(line: bytes | None, *, is_first: bool) -> dict[str, Any] | None:
    if line is None:
        raise Flaw(f"longer than {MOST_ROW_BYTES:,} bytes")
    if is_first:
        line = line.removeprefix(_BYTE_ORDER_MARK)
    if not line.strip():
        return None
    value = _loads(_decode(line))
    if not isinstance(value, dict):
        raise Flaw(f"expected an object in braces, got {show(value)}")
    return value


def _decode(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Flaw(f"not UTF-8 text (byte 0x{line[error.start]:02x} at {error.start + 1})") from None


def _loads(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except Flaw:
        raise
    except json.JSONDecodeError as error:
        raise Flaw(f"not JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise Flaw("nested too deep") from None
    except ValueError:
        raise Flaw("holds a number of too many digits") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise Flaw(f"key {show(twice)} stands twice")
    return made


def _refuse_constant(name: str) -> NoReturn:
    raise Flaw(f"{name} is not a number that JSON has")


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
        return file.read(4096).removeprefix(_BYTE_ORDER_MARK).lstrip().startswith(b"[")
