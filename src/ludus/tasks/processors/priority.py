"""Sorting tasks by what is worth attempting first."""

from __future__ import annotations

import numpy as np

from ludus.config import PrioritiseConfig
from ludus.tasks.json_values import Flaw, as_number
from ludus.tasks.processors.ranks import ranks
from ludus.tasks.rows import RefusedRows, Row


class Priority:
    """Sorts rows by a weighted sum of the ranks of their fields; equals keep their order."""

    def __init__(self, config: PrioritiseConfig) -> None:
        self._config = config

    def process(self, rows: list[Row], refused: RefusedRows) -> list[Row]:
        """The rows, the worthiest first. Rows that lack a number for one of the weights are refused."""
        sound = refused.keep(rows, self._require_numbers)
        worth = np.zeros(len(sound))
        for name, weight in self._config.weights.items():
            numbers = [as_number(row.fields[name]) for row in sound]
            worth += weight * ranks(np.array(numbers, np.float64))
        order = np.argsort(-worth, kind="stable")[: self._config.keep]
        return [sound[index] for index in order.tolist()]

    def _require_numbers(self, row: Row) -> Row:
        for name in self._config.weights:
            if as_number(row.fields.get(name)) is None:
                raise Flaw(f"field {name}: expected a number to sort by")
        return row
