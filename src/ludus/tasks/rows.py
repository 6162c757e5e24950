"""Rows on their way from a file to a taskset, and what is said about those that do not arrive.

Invariant: a row that is refused is counted, and the first few are kept with place and reason, whatever their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ludus.tasks.json_values import Flaw

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
