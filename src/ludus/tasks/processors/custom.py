"""A user's own functions as task processors.

Invariant: an error of a function of one row costs that row and names the function; rows that it makes are checked like
those of a file.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from ludus.errors import ConfigError
from ludus.tasks.json_values import Flaw, measure
from ludus.tasks.rows import RefusedRows, Row

Fields = dict[str, Any]
RowFunction = Callable[..., Fields | None]
SetFunction = Callable[..., list[Fields]]


class CustomProcessor:
    """Applies a function to each row."""

    def __init__(self, name: str, function: RowFunction, options: dict[str, Any]) -> None:
        self._name = name
        self._function = function
        self._options = options

    def process(self, rows: list[Row], refused: RefusedRows) -> list[Row]:
        """Every row that the function gives back."""
        return refused.keep(rows, self._apply)

    def _apply(self, row: Row) -> Row | None:
        try:
            fields = self._function(deepcopy(row.fields), **self._options)
        except Exception as error:  # a user's code: whatever it raises is about this row
            raise Flaw(f"processor {self._name}: {type(error).__name__}: {error}") from error
        if fields is None:
            return None
        if not isinstance(fields, dict):
            raise Flaw(f"processor {self._name}: gave a {type(fields).__name__}; expected the row's fields or None")
        return _sound(self._name, Row(line=row.line, fields=fields))


class SetProcessor:
    """Applies a function to all rows at once."""

    def __init__(self, name: str, function: SetFunction, options: dict[str, Any]) -> None:
        self._name = name
        self._function = function
        self._options = options

    def process(self, rows: list[Row], refused: RefusedRows) -> list[Row]:
        """What the function makes of them. A row that it made itself has no line."""
        given = [dict(row.fields) for row in rows]
        lines = {id(fields): row.line for fields, row in zip(given, rows, strict=True)}
        try:
            made = self._function(list(given), **self._options)
        except Exception as error:  # a user's code, and all rows depend on it
            raise ConfigError(f"processor {self._name}: {type(error).__name__}: {error}") from error
        if not isinstance(made, list) or not all(isinstance(fields, dict) for fields in made):
            raise ConfigError(f"processor {self._name}: expected a list of rows from it")
        found = [Row(line=lines.get(id(fields), 0), fields=fields) for fields in made]
        return refused.keep(found, lambda row: _sound(self._name, row))


def _sound(name: str, row: Row) -> Row:
    try:
        measure(row.fields)
    except Flaw as flaw:
        raise Flaw(f"processor {name}: {flaw}") from None
    return row
