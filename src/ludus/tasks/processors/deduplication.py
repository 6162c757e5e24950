"""Leaving out rows that repeat an earlier one."""

from __future__ import annotations

import json
import unicodedata
from hashlib import blake2b
from typing import Any

from ludus.config import TaskDeduplicateConfig
from ludus.tasks.json_values import Flaw
from ludus.tasks.rows import RefusedRows, Row


class Deduplication:
    """Keeps the first of the rows whose fields are alike."""

    def __init__(self, config: TaskDeduplicateConfig) -> None:
        self._fields = config.fields
        self._normalises = config.how == "normalised"

    def process(self, rows: list[Row], refused: RefusedRows) -> list[Row]:
        """The first of each kind, in their order. Rows that lack one of the fields are refused."""
        seen: set[bytes] = set()

        def first(row: Row) -> Row | None:
            mark = self._mark(row)
            if mark in seen:
                return None
            seen.add(mark)
            return row

        return refused.keep(rows, first)

    def _mark(self, row: Row) -> bytes:
        missing = [name for name in self._fields if name not in row.fields]
        if missing:
            raise Flaw(f"no field {missing[0]!r} to compare")
        values = [self._plain(row.fields[name]) for name in self._fields]
        return blake2b(json.dumps(values, sort_keys=True).encode(), digest_size=16).digest()

    def _plain(self, value: Any) -> Any:
        if not self._normalises or not isinstance(value, str):
            return value
        return " ".join(unicodedata.normalize("NFKC", value).casefold().split())
