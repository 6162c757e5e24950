"""Rows on their way from a file to a taskset: what may stand in them, how columns become fields, and what is refused.

Invariants:
- A value that passes `measure` can be encoded as JSON and as UTF-8, has no NaN, and is bounded in size and depth,
  whichever file or plugin it came from.
- A row that is refused is counted, and the first few are kept with place and reason, whatever their number.
- `prompt` comes out as text. Chat lists, as many datasets have them, become the text of their one question, with a
  system message before it as the field `system`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from ludus.config import Path, printable, shorten
from ludus.config.sections.tasks import RESERVED_FIELDS
from ludus.errors import ConfigError

MOST_ROW_BYTES = 4 * 2**20
MOST_DEPTH = 16
MOST_RATIO = 100
"""What a file of more than a few rows may unpack to, in multiples of its size."""
_ALWAYS_BYTES = 2**26
_VALUE_BYTES = 8


class Flaw(ValueError):
    """What is wrong with one row; it costs that row only."""


def measure(fields: Any) -> int:
    """About how many bytes a row takes. Raises Flaw if it holds something that is not JSON, or too much of it."""
    if not isinstance(fields, dict):
        raise Flaw(f"expected an object with fields, got {_name(fields)}")
    return _add(0, fields, ())


def _add(size: int, value: Any, path: Path) -> int:
    """A size with that of a value and all its entries."""
    size += _size(value, path)
    if size > MOST_ROW_BYTES:
        raise Flaw(f"larger than {MOST_ROW_BYTES:,} bytes")
    if isinstance(value, dict | list):
        if len(path) >= MOST_DEPTH:
            raise Flaw(f"nested more than {MOST_DEPTH} levels deep")
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            size = _add(size, entry, (*path, key))
    return size


def most_unpacked(size_bytes: int) -> int:
    """How much a file or a part of it may unpack to before it counts as a bomb."""
    return _ALWAYS_BYTES + MOST_RATIO * size_bytes


def as_number(value: Any) -> float | None:
    """A finite number, or text that reads as one; else None."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and len(value) > 400:
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if isfinite(number) else None


def _size(value: Any, path: Path) -> int:
    """What a value takes beside its entries."""
    match value:
        case None | bool():
            return _VALUE_BYTES
        case str():
            return _VALUE_BYTES + _text_size(value, path)
        case int():
            if not -(2**63) <= value < 2**63:
                raise Flaw(f"{_at(path)}a number of more than 64 bits")
            return _VALUE_BYTES
        case float():
            if not isfinite(value):
                raise Flaw(f"{_at(path)}{value} is not a number that JSON has")
            return _VALUE_BYTES
        case list():
            return _VALUE_BYTES
        case dict():
            return _VALUE_BYTES + sum(_key_size(key, path) for key in value)
    raise Flaw(f"{_at(path)}{_name(value)} is not JSON")


def _key_size(key: Any, path: Path) -> int:
    if not isinstance(key, str):
        raise Flaw(f"{_at(path)}a key that is not text")
    return _text_size(key, path)


def _text_size(text: str, path: Path) -> int:
    if "\0" in text:
        raise Flaw(f"{_at(path)}holds a NUL character")
    if text.isascii() or len(text) > MOST_ROW_BYTES:
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise Flaw(f"{_at(path)}holds half of a character (a lone surrogate)") from None


def _at(path: Path) -> str:
    return f"field {shorten(printable('.'.join(map(str, path))))}: " if path else ""


def _name(value: Any) -> str:
    names = {str: "text", list: "a list", dict: "an object", bool: "true or false", type(None): "null", bytes: "bytes"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else f"a {type(value).__name__}")


DIFFICULTY = "difficulty"
"""The field that says how hard a task is; the greater the harder."""
MOST_EXAMPLES = 20
"""Refused rows that are kept for people to look at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row and where it came from."""

    line: int
    """Line of the file, or number of the row, counted from 1."""
    fields: dict[str, Any]

    def having(self, fields: Mapping[str, Any]) -> Row:
        """The same row with some fields exchanged or added."""
        return Row(line=self.line, fields={**self.fields, **fields})


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """A row that a reader could not make sense of."""

    line: int
    reason: str


@dataclass(slots=True, kw_only=True)
class RefusedRows:
    """What was refused of one source."""

    source: str
    count: int = 0
    examples: list[str] = field(default_factory=list)
    """`file:line: reason`, of the first ones."""

    def add(self, line: int, reason: str) -> None:
        """Refuse one row."""
        self.count += 1
        if len(self.examples) < MOST_EXAMPLES:
            self.examples.append(f"{self.source}:{line}: {reason}")

    def keep(self, rows: Iterable[Row], change: Callable[[Row], Row | None]) -> list[Row]:
        """Change every row; those that turn out flawed are refused, those that become None are dropped."""
        kept: list[Row] = []
        for row in rows:
            try:
                changed = change(row)
            except Flaw as flaw:
                self.add(row.line, str(flaw))
                continue
            if changed is not None:
                kept.append(changed)
        return kept


_ROLES = ("system", "user")


def pick_columns(source: str, present: Sequence[str], paths: Sequence[str]) -> list[str]:
    """The columns of a table that these paths (`a`, or b inside of a: `a.b`) lead into; no paths mean all columns.

    Raises:
        ConfigError: there is no such column, or a name stands twice.
    """
    if len(set(present)) < len(present):
        raise ConfigError(f"{source}: two columns have the same name")
    columns = [path if path in present else path.partition(".")[0] for path in paths] or list(present)
    missing = [name for name in columns if name not in present]
    if missing:
        raise ConfigError(f"{source}: no column {', '.join(missing)}; it has {shorten(', '.join(present), 200)}")
    return list(dict.fromkeys(columns))


def map_fields(columns: Mapping[str, Any], mapping: Mapping[str, str]) -> dict[str, Any]:
    """The fields of one row.

    Raises:
        Flaw: a column that the mapping names is not there, or the prompt is no question.
        ConfigError: without a mapping, a column has a name that tasks use themselves.
    """
    fields = {name: _find(columns, column) for name, column in mapping.items()} if mapping else dict(columns)
    taken = [name for name in RESERVED_FIELDS if name in fields]
    if taken:
        raise ConfigError(f"column {taken[0]!r} has a name that tasks use themselves; give it another one in `fields`")
    if isinstance(fields.get("prompt"), list):
        fields |= _question(fields["prompt"], fields)
    return fields


def check_fields(fields: Mapping[str, Any], required: Sequence[str]) -> None:
    """Check that the required fields are there, as text that is not blank, and none that tasks use themselves."""
    for name in RESERVED_FIELDS:
        if name in fields:
            raise Flaw(f"field {name}: tasks use this name themselves")
    for name in required:
        if name not in fields:
            raise Flaw(f"no field {name!r}; it has {shorten(', '.join(fields), 200) or 'none'}")
        if not isinstance(fields[name], str) or not fields[name].strip():
            raise Flaw(f"field {name}: expected text that is not blank")


def _find(columns: Mapping[str, Any], path: str) -> Any:
    if path in columns:
        return columns[path]
    value: Any = columns
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise Flaw(f"no field {path!r}; it has {shorten(', '.join(map(str, columns)), 200) or 'none'}")
        value = value[part]
    return value


def _question(messages: list[Any], fields: Mapping[str, Any]) -> dict[str, str]:
    """The fields that a chat list of one question stands for."""
    texts: dict[str, str] = {}
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("content"), str):
            raise Flaw("field prompt: expected text, or messages with role and content")
        role = message.get("role")
        if role not in _ROLES or role in texts:
            raise Flaw("field prompt: expected one system and one user message; longer conversations are no prompts")
        texts[role] = message["content"]
    if "user" not in texts:
        raise Flaw("field prompt: no message of the user")
    system = {"system": texts["system"]} if "system" in texts and "system" not in fields else {}
    return {"prompt": texts["user"], **system}
