"""Scoring how hard each task is, for the curricula that go by it."""

from __future__ import annotations

import numpy as np

from ludus.config import ScoreDifficultyConfig
from ludus.tasks.json_values import Flaw, as_number
from ludus.tasks.processors.ranks import ranks
from ludus.tasks.rows import DIFFICULTY, RefusedRows, Row


class DifficultyScore:
    """Adds `difficulty`, 0 for the easiest rows and 1 for the hardest."""

    def __init__(self, config: ScoreDifficultyConfig) -> None:
        self._config = config

    def process(self, rows: list[Row], refused: RefusedRows) -> list[Row]:
        """Every row with its score; rows that cannot be scored are refused."""
        sign = 1.0 if self._config.harder == "higher" else -1.0
        scored = refused.keep(rows, lambda row: row.having({DIFFICULTY: sign * self._score(row)}))
        values = ranks(np.array([row.fields[DIFFICULTY] for row in scored], np.float64))
        return [row.having({DIFFICULTY: rank}) for row, rank in zip(scored, values.tolist(), strict=True)]

    def _score(self, row: Row) -> float:
        name = self._config.field
        if name not in row.fields:
            raise Flaw(f"no field {name!r} to score its difficulty by")
        value = row.fields[name]
        if self._config.by == "value":
            number = as_number(value)
            if number is None:
                raise Flaw(f"field {name}: expected a number to score its difficulty by")
            return number
        if not isinstance(value, str | list):
            raise Flaw(f"field {name}: expected text or a list to score its difficulty by its length")
        return float(len(value))
