"""Keeping the rows that fit: `{kind: filter, field: prompt, max_length: 400}`."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from ludus.config import TaskFilterConfig
from ludus.tasks.json_values import as_number
from ludus.tasks.rows import RefusedRows, Row


class Filter:
    """Keeps rows of which every comparison holds."""

    def __init__(self, config: TaskFilterConfig) -> None:
        self._config = config

    def process(self, rows: list[Row], refused: RefusedRows) -> list[Row]:
        """The rows that fit, in their order."""
        return [row for row in rows if self._config.field in row.fields and self._fits(row.fields[self._config.field])]

    def _fits(self, value: Any) -> bool:
        config = self._config
        is_same = config.equals is None or _same(value, config.equals)
        is_other = config.differs is None or not _same(value, config.differs)
        is_listed = config.one_of is None or any(_same(value, entry) for entry in config.one_of)
        return is_same and is_other and is_listed and self._fits_range(value) and self._fits_length(value)

    def _fits_range(self, value: Any) -> bool:
        low, high = self._config.at_least, self._config.at_most
        if low is None and high is None:
            return True
        number = as_number(value)
        return number is not None and (low is None or number >= low) and (high is None or number <= high)

    def _fits_length(self, value: Any) -> bool:
        low, high = self._config.min_length, self._config.max_length
        if low is None and high is None:
            return True
        return isinstance(value, Sized) and len(value) >= (low or 0) and (high is None or len(value) <= high)


def _same(value: Any, other: Any) -> bool:
    """Equal, and not merely 1 and true."""
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)
