"""Task processors: what happens to the rows of a taskset once, before the run.

Add one from a plugin with `register_processor`, or from an installed package with an entry point in the group
`ludus.processors`; a built-in one is in `PROCESSORS`, its model in `config/sections/tasks.py`.

Invariant: the same rows give the same rows. A row that cannot be processed is refused with a reason; rows that a user's
function makes are checked like those of a file.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Sequence, Sized
from copy import deepcopy
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.config import template_parts
from ludus.config.sections.tasks import (
    CustomProcessorConfig,
    PrioritiseConfig,
    ScoreDifficultyConfig,
    TaskDeduplicateConfig,
    TaskFilterConfig,
    TaskMapConfig,
)
from ludus.errors import ConfigError
from ludus.plugin_frames import in_words
from ludus.plugins import Registry
from ludus.tasks.rows import DIFFICULTY, MOST_ROW_BYTES, Flaw, RefusedRows, Row, as_number, measure

Fields = dict[str, Any]
RowFunction = Callable[..., Fields | None]
SetFunction = Callable[..., list[Fields]]
Processor = Callable[[list[Row], RefusedRows], list[Row]]
"""Gives the rows that remain, in their new order. Rows that cannot be processed go to `RefusedRows` with a reason."""

OWN: Registry[Any] = Registry("processor", "ludus.processors")
"""Functions of a row, or pairs of a function and whether it takes all rows."""


def register_processor(name: str, function: RowFunction | SetFunction, *, whole: bool = False) -> None:
    """Make a processor known under a name.

    Args:
        name: What `{kind: custom, name: ...}` says.
        function: Takes the fields of one row and the options as keywords; gives the fields of the new row, or None to
            leave the row out. An error that it raises refuses the row.
        whole: The function takes and gives the list of all rows instead; an error ends the run.
    """
    OWN.add(name, (function, whole))


# -- filter: {kind: filter, field: prompt, max_length: 400} ------------------------------------------------------------


def filter_rows(config: TaskFilterConfig, rows: list[Row], refused: RefusedRows) -> list[Row]:
    """The rows of which every comparison holds, in their order."""
    return [row for row in rows if config.field in row.fields and _fits(config, row.fields[config.field])]


def _fits(config: TaskFilterConfig, value: Any) -> bool:
    is_same = config.equals is None or _same(value, config.equals)
    is_other = config.differs is None or not _same(value, config.differs)
    is_listed = config.one_of is None or any(_same(value, entry) for entry in config.one_of)
    has_length = isinstance(value, Sized)
    return (
        is_same
        and is_other
        and is_listed
        and _is_between(config.at_least, config.at_most, as_number(value))
        and _is_between(config.min_length, config.max_length, len(value) if has_length else None)
    )


def _is_between(low: float | None, high: float | None, number: float | None) -> bool:
    if low is None and high is None:
        return True
    return number is not None and (low is None or number >= low) and (high is None or number <= high)


def _same(value: Any, other: Any) -> bool:
    """Equal, and not merely 1 and true."""
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


# -- map: {kind: map, fields: {prompt: "Question: {question}"}} --------------------------------------------------------


def map_rows(config: TaskMapConfig, rows: list[Row], refused: RefusedRows) -> list[Row]:
    """Every row with its fields set from templates, which see the row as it was before.

    A template can name fields and nothing else (no attributes, no indexing, no formats), so a config cannot reach into
    the program, and what comes out is bounded. A row that lacks a field is refused.
    """
    templates = {name: template_parts(text) for name, text in config.fields.items()}
    return refused.keep(
        rows, lambda row: row.having({name: _fill(parts, row.fields) for name, parts in templates.items()})
    )


def _fill(parts: Sequence[tuple[str, str | None]], fields: Fields) -> str:
    """A template with its fields put in. Text goes in as it is, everything else as JSON."""
    pieces: list[str] = []
    size = 0
    for literal, name in parts:
        pieces.append(literal)
        if name is not None:
            if name not in fields:
                raise Flaw(f"no field {name!r} for a template")
            value = fields[name]
            pieces.append(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
            size += len(pieces[-1])
            if size > MOST_ROW_BYTES:
                raise Flaw(f"a template would make more than {MOST_ROW_BYTES:,} characters")
    return "".join(pieces)


# -- deduplicate -------------------------------------------------------------------------------------------------------


def deduplicate_rows(config: TaskDeduplicateConfig, rows: list[Row], refused: RefusedRows) -> list[Row]:
    """The first of the rows whose fields are alike, in their order. Rows that lack one of the fields are refused."""
    seen: set[bytes] = set()

    def first(row: Row) -> Row | None:
        mark = _mark(config, row)
        if mark in seen:
            return None
        seen.add(mark)
        return row

    return refused.keep(rows, first)


def _mark(config: TaskDeduplicateConfig, row: Row) -> bytes:
    missing = [name for name in config.fields if name not in row.fields]
    if missing:
        raise Flaw(f"no field {missing[0]!r} to compare")
    values = [row.fields[name] for name in config.fields]
    if config.how == "normalised":
        values = [_normalised(value) if isinstance(value, str) else value for value in values]
    return blake2b(json.dumps(values, sort_keys=True).encode(), digest_size=16).digest()


def _normalised(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


# -- score_difficulty and prioritise -----------------------------------------------------------------------------------


def score_difficulty(config: ScoreDifficultyConfig, rows: list[Row], refused: RefusedRows) -> list[Row]:
    """Every row with its `difficulty`, 0 for the easiest and 1 for the hardest; rows without a score are refused."""
    sign = 1.0 if config.harder == "higher" else -1.0
    scored = refused.keep(rows, lambda row: row.having({DIFFICULTY: sign * _score(config, row)}))
    values = _ranks([row.fields[DIFFICULTY] for row in scored])
    return [row.having({DIFFICULTY: rank}) for row, rank in zip(scored, values.tolist(), strict=True)]


def _score(config: ScoreDifficultyConfig, row: Row) -> float:
    name = config.field
    if name not in row.fields:
        raise Flaw(f"no field {name!r} to score its difficulty by")
    value = row.fields[name]
    if config.by == "value":
        number = as_number(value)
        if number is None:
            raise Flaw(f"field {name}: expected a number to score its difficulty by")
        return number
    if not isinstance(value, str | list):
        raise Flaw(f"field {name}: expected text or a list to score its difficulty by its length")
    return float(len(value))


def prioritise_rows(config: PrioritiseConfig, rows: list[Row], refused: RefusedRows) -> list[Row]:
    """The rows by a weighted sum of the ranks of their fields, the highest first; equals keep their order.

    Rows that lack a number for one of the weights are refused.
    """

    def require_numbers(row: Row) -> Row:
        for name in config.weights:
            if as_number(row.fields.get(name)) is None:
                raise Flaw(f"field {name}: expected a number to sort by")
        return row

    sound = refused.keep(rows, require_numbers)
    priority = np.zeros(len(sound))
    for name, weight in config.weights.items():
        priority += weight * _ranks([as_number(row.fields[name]) for row in sound])
    order = np.argsort(-priority, kind="stable")[: config.keep]
    return [sound[index] for index in order.tolist()]


def _ranks(numbers: Sequence[float | None]) -> NDArray[np.float64]:
    """Share of the other numbers that are smaller, `[n]`: makes fields of different units comparable."""
    values = np.array(numbers, np.float64)
    if len(values) < 2:
        return np.zeros(len(values))
    smaller = np.searchsorted(np.sort(values), values, side="left")
    return smaller / (len(values) - 1)


# -- custom ------------------------------------------------------------------------------------------------------------


def process_custom(config: CustomProcessorConfig, rows: list[Row], refused: RefusedRows) -> list[Row]:
    """What a registered function makes of the rows."""
    found = OWN.find(config.name)
    function, whole = found if isinstance(found, tuple) else (found, False)
    process = process_set if whole else process_each
    return process(rows, refused, name=config.name, function=partial(function, **config.options))


def process_each(rows: list[Row], refused: RefusedRows, *, name: str, function: RowFunction) -> list[Row]:
    """Every row that a function of one row gives back. Its errors cost that row and name the function."""

    def change(row: Row) -> Row | None:
        try:
            fields = function(deepcopy(row.fields))
        except Exception as error:  # a user's code: whatever it raises is about this row
            raise Flaw(f"processor {name}: {in_words(error)}") from error
        if fields is None:
            return None
        if not isinstance(fields, dict):
            raise Flaw(f"processor {name}: gave a {type(fields).__name__}; expected the row's fields or None")
        return _sound(name, Row(line=row.line, fields=fields))

    return refused.keep(rows, change)


def process_set(rows: list[Row], refused: RefusedRows, *, name: str, function: SetFunction) -> list[Row]:
    """What a function of all rows makes of them. A row that it made itself has no line."""
    given = [dict(row.fields) for row in rows]
    lines = {id(fields): row.line for fields, row in zip(given, rows, strict=True)}
    try:
        made = function(list(given))
    except Exception as error:  # a user's code, and all rows depend on it
        raise ConfigError(f"processor {name}: {in_words(error)}") from error
    if not isinstance(made, list) or not all(isinstance(fields, dict) for fields in made):
        raise ConfigError(f"processor {name}: expected a list of rows from it")
    found = [Row(line=lines.get(id(fields), 0), fields=fields) for fields in made]
    return refused.keep(found, lambda row: _sound(name, row))


def _sound(name: str, row: Row) -> Row:
    try:
        measure(row.fields)
    except Flaw as flaw:
        raise Flaw(f"processor {name}: {flaw}") from None
    return row


PROCESSORS: dict[str, Callable[[Any, list[Row], RefusedRows], list[Row]]] = {
    "filter": filter_rows,
    "map": map_rows,
    "deduplicate": deduplicate_rows,
    "score_difficulty": score_difficulty,
    "prioritise": prioritise_rows,
    "custom": process_custom,
}
