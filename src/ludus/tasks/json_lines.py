"""Rows from a file of JSON lines, which may hold anything.

Invariant: whatever the file holds, memory is bounded by the longest line that is accepted, nothing but `OSError` and
`ConfigError` is raised, and every line that is not one sound object is reported with its number. Blank lines are
skipped. Objects in which a key stands twice are refused: readers disagree about what they mean.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from ludus.config import show
from ludus.errors import ConfigError
from ludus.tasks.json_values import MOST_ROW_BYTES, Flaw
from ludus.tasks.rows import BadRow, Row

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
