"""What a task processor is."""

from __future__ import annotations

from typing import Protocol

from ludus.tasks.rows import RefusedRows, Row


class Processor(Protocol):
    """Turns the rows of one taskset into others. Called once, before the run; the same rows must give the same rows."""

    def process(self, rows: list[Row], refused: RefusedRows) -> list[Row]:
        """The rows that remain, in their new order. Rows that cannot be processed go to `refused` with a reason."""
        ...
