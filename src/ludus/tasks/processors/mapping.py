"""Making fields from templates: `{kind: map, fields: {prompt: "Question: {question}"}}`.

Invariant: a template can name fields and nothing else (no attributes, no indexing, no formats), so a config cannot
reach into the program, and what comes out is bounded.
"""

from __future__ import annotations

import json
from typing import Any

from ludus.config import TaskMapConfig, template_parts
from ludus.tasks.json_values import MOST_ROW_BYTES, Flaw
from ludus.tasks.rows import RefusedRows, Row

Parts = tuple[tuple[str, str | None], ...]


class Mapping:
    """Sets fields of each row; all templates see the row as it was before."""

    def __init__(self, config: TaskMapConfig) -> None:
        self._templates = {name: template_parts(text) for name, text in config.fields.items()}

    def process(self, rows: list[Row], refused: RefusedRows) -> list[Row]:
        """Every row with its new fields; a row that lacks a field is refused."""
        return refused.keep(rows, self._change)

    def _change(self, row: Row) -> Row:
        return row.having({name: fill(parts, row.fields) for name, parts in self._templates.items()})


def fill(parts: Parts, fields: dict[str, Any]) -> str:
    """A template with its fields put in. Text goes in as it is, everything else as JSON.

    Raises:
        Flaw: a field is missing, or the text would be too long.
    """
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
