"""A taskset: rows read, checked, mapped and processed, ready to be attempted.

Invariant: every row of a `Taskset` is sound JSON with its required fields, whatever the file held and the processors
did; bad rows are counted, with place and reason. The same file and config give the same rows in the same order, and
`fingerprint` tells any two different sets apart.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from ludus.config import TasksetConfig, dotted
from ludus.errors import ConfigError
from ludus.tasks.processors import PROCESSORS, Processor
from ludus.tasks.rows import BadRow, Flaw, RefusedRows, Row, check_fields, map_fields, measure, most_unpacked
from ludus.tasks.sources import read_rows

log = logging.getLogger(__name__)

MOST_ROWS = 5_000_000
MOST_BYTES = 4 * 2**30
MOST_FRUITLESS = 10_000
"""Rows that may be refused before the first good one; then the file is not what it was taken for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taskset:
    """The rows of one set, and what became of those that are not in it."""

    config: TasksetConfig
    rows: tuple[dict[str, Any], ...]
    fingerprint: str
    """Of the rows and their order."""
    refused: int = 0
    refusals: tuple[str, ...] = ()
    """`file:line: reason` of the first refused rows."""
    dropped: Mapping[str, int]
    """Rows that each processor left out on purpose, by `number:kind`."""

    @property
    def name(self) -> str:
        """What the set is called."""
        return self.config.name

    @property
    def game(self) -> str:
        """What its tasks have as their game."""
        return self.config.game

    def __len__(self) -> int:
        return len(self.rows)


def load_taskset(
    config: TasksetConfig, *, required: Sequence[str] = ("prompt",), last: Processor | None = None
) -> Taskset:
    """Read a taskset and run its processors.

    Args:
        config: Where it is, and what happens to its rows.
        required: Fields that every row must have as text.
        last: Sees the rows after the config's own processors.

    Raises:
        ConfigError: it cannot be read, no row is left, or a row is bad and the config is strict; one line per problem.
    """
    refused = RefusedRows(source=config.path)
    try:
        rows = _read(config, refused)
        rows, dropped = _process(config, rows, refused)
        rows = last(rows, refused) if last is not None else rows
    except ConfigError as error:
        raise ConfigError(*(f"taskset {config.name}: {problem}" for problem in error.problems)) from error
    except OSError as error:
        raise ConfigError(f"taskset {config.name}: {config.path} cannot be read: {error.strerror}") from error
    rows = refused.keep(rows, lambda row: _checked(row, required))
    _conclude(config, rows, refused, dropped)
    return Taskset(
        config=config,
        rows=tuple(row.fields for row in rows),
        fingerprint=_fingerprint(rows),
        refused=refused.count,
        refusals=tuple(refused.examples),
        dropped=dropped,
    )


def _read(config: TasksetConfig, refused: RefusedRows) -> list[Row]:
    rows: list[Row] = []
    size, most_size = 0, _most_bytes(config)
    for found in read_rows(config):
        try:
            row = _mapped(found, config)
            size += measure(row.fields)
            rows.append(row)
        except Flaw as flaw:
            refused.add(found.line, str(flaw))
        if len(rows) == config.limit or (not rows and refused.count >= MOST_FRUITLESS):
            break
        if len(rows) > MOST_ROWS or size > most_size:
            raise ConfigError(f"more than {MOST_ROWS:,} rows or {most_size:,} bytes; read a part of it with limit")
    return rows


def _most_bytes(config: TasksetConfig) -> int:
    """What its rows may take: bounded, and in proportion to the file, lest a small one fill the memory."""
    path = Path(config.path)
    return min(MOST_BYTES, most_unpacked(path.stat().st_size)) if path.is_file() else MOST_BYTES


def _mapped(found: Row | BadRow, config: TasksetConfig) -> Row:
    if isinstance(found, BadRow):
        raise Flaw(found.reason)
    return Row(line=found.line, fields=map_fields(found.fields, config.fields))


def _process(config: TasksetConfig, rows: list[Row], refused: RefusedRows) -> tuple[list[Row], dict[str, int]]:
    dropped: dict[str, int] = {}
    for number, settings in enumerate(config.processors):
        try:
            before, refused_before = len(rows), refused.count
            rows = PROCESSORS[settings.kind](settings, rows, refused)
        except ConfigError as error:
            path = dotted(("processors", number))
            raise ConfigError(*(f"{path}: {problem}" for problem in error.problems)) from error
        left_out = before - len(rows) - (refused.count - refused_before)
        if left_out > 0:
            dropped[f"{number}:{settings.kind}"] = left_out
    return rows, dropped


def _checked(row: Row, required: Sequence[str]) -> Row:
    """What processors made is checked as what files hold is: they may be anybody's."""
    measure(row.fields)
    check_fields(row.fields, required)
    return row


def _conclude(config: TasksetConfig, rows: Sequence[Row], refused: RefusedRows, dropped: Mapping[str, int]) -> None:
    name, more = f"taskset {config.name}", refused.count - len(refused.examples)
    lines = [*refused.examples, *([f"… and {more:,} more"] if more else [])]
    if refused.count and (config.strict or not rows):
        what = "strict, and" if rows else "none of its rows can be used;"
        raise ConfigError(f"{name}: {what} {refused.count:,} were refused", *lines)
    if not rows:
        raise ConfigError(f"{name}: {config.path} has no rows" + (f" left (dropped: {dropped})" if dropped else ""))
    if refused.count:
        log.warning("%s: %d rows refused, %d kept; the first: %s", name, refused.count, len(rows), refused.examples[0])


def _fingerprint(rows: Sequence[Row]) -> str:
    digest = blake2b(digest_size=16)
    for row in rows:
        digest.update(msgspec.json.encode(row.fields, order="deterministic") + b"\n")
    return digest.hexdigest()
