"""The tables of docs/configuration.md: every key with its type, its default and its meaning, from the schema.

Invariant: a key that the schema has is in exactly one table; keys that stand in several places are written out where
they come first, and elsewhere the row says where that is. What stands before `MARK` in the page is written by hand.
`python -m ludus.config.describe.key_tables docs/configuration.md` prints the page; `make pages` writes it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ludus.config.describe.documents import json_schema

MARK = "<!-- What follows is made from the schema by `make pages`. -->"
_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
_FIRST = ("rewards", "workflow", "explore")
"""Sections whose keys others take over: they are written out in these."""
_NAMES = {"integer": "whole number", "boolean": "true, false", "string": "text", "null": "null"}
Schema = dict[str, Any]


class KeyTables:
    """Walks the schema from the top; remembers which definitions have been written out, and where."""

    def __init__(self) -> None:
        self._schema = json_schema()
        self._written: dict[str, str] = {}

    def sections(self) -> Iterator[str]:
        """A heading and a table for each key at the top."""
        keys = self._schema["properties"]
        single = [(key, value) for key, value in keys.items() if not self._models(value)]
        yield _table("The top level", "", [self._row(key, value, is_required=key == "name") for key, value in single])
        ordered = dict.fromkeys((*_FIRST, *keys))
        rows = {key: list(self._rows(key, keys[key])) for key in ordered if self._models(keys[key])}
        for key in (key for key in keys if key in rows):
            yield _table(f"`{key}`", self._meaning(keys[key]), rows[key])

    def _rows(self, path: str, field: Schema) -> Iterator[str]:
        """The rows of what stands at a path: of each of the models that may stand there."""
        inner = f"{path}[]" if _is_list(field) else f"{path}.NAME" if "additionalProperties" in field else path
        models = self._models(field)
        for name, kind in models.items():
            where = f"{inner} ({kind})" if kind else inner
            if name in self._written:
                yield f"| `{where}` | | | the keys of `{self._written[name]}` |"
                continue
            self._written[name] = where
            yield from self._keys(inner, where, self._definition(name), is_one=len(models) == 1)

    def _keys(self, inner: str, where: str, model: Schema, *, is_one: bool) -> Iterator[str]:
        if not is_one:
            yield f"| **`{where}`** | | | {_prose(model)} |"
        if inner == "stages[]":
            yield self._row(f"{inner}.name", model["properties"]["name"], is_required=True)
            yield f"| `{inner}.KEY` | | | any key of the run but `name` and `stages` |"
            return
        for key, field in model.get("properties", {}).items():
            if "const" in field and not is_one:
                continue  # the line above says which kind it is
            yield self._row(f"{inner}.{key}", field, is_required=key in model.get("required", ()))
            if self._models(field):
                yield from self._rows(f"{inner}.{key}", field)

    def _row(self, path: str, field: Schema, *, is_required: bool = False) -> str:
        default = "*required*" if is_required else self._default(field)
        return f"| `{path}` | {self._type(field)} | {default} | {self._meaning(field)} |"

    def _meaning(self, field: Schema) -> str:
        """What is said of the key, else of what stands there."""
        models = self._models(field)
        return _prose(field) or (_prose(self._definition(*models)) if len(models) == 1 else "")

    def _default(self, field: Schema) -> str:
        value = field.get("default", {})
        return "" if self._models(field) and value not in (None, []) else f"`{json.dumps(value, ensure_ascii=False)}`"

    def _type(self, field: Schema) -> str:
        """In words: `whole number > 0, null`."""
        if "const" in field:
            return f"`{field['const']}`"
        if "enum" in field:
            return ", ".join(f"`{value}`" for value in field["enum"])
        choices = [each for key in ("anyOf", "oneOf") for each in field.get(key, ())]
        if choices:
            return ", ".join(dict.fromkeys(self._type(each) for each in choices))
        if "$ref" in field:
            return "mapping"
        if field.get("type") == "array":
            items = field.get("items") or {}
            return f"list of {self._type(items)}" if items else "list"
        if field.get("type") == "object":
            return "mapping"
        bounds = [f"{sign} {field[name]:,}" for name, sign in _BOUNDS.items() if name in field]
        kind = str(field.get("type", "any value"))
        return " ".join([_NAMES.get(kind, kind), *bounds])

    def _models(self, field: Schema) -> dict[str, str]:
        """Names of the models that may stand there, each with what chooses it among the others."""
        found: dict[str, str] = {}
        parts = [*field.get("anyOf", ()), *field.get("oneOf", ())]
        for part in (field, field.get("items"), field.get("additionalProperties")):
            if isinstance(part, dict) and "$ref" in part:
                name = part["$ref"].rsplit("/", 1)[-1]
                kinds = self._definition(name).get("properties", {}).get("kind", {})
                found[name] = f"kind: {kinds['const']}" if "const" in kinds else ""
            elif isinstance(part, dict) and part is not field:
                parts.append(part)
        for part in parts:
            found |= self._models(part)
        return found

    def _definition(self, name: str) -> Schema:
        """A model without the text that may stand in its place."""
        model: Schema = self._schema["$defs"][name]
        return next((each for each in model.get("anyOf", ()) if "properties" in each), model)


def _is_list(field: Schema) -> bool:
    return field.get("type") == "array" or any(each.get("type") == "array" for each in field.get("anyOf", ()))


def _prose(field: Schema) -> str:
    return " ".join(str(field.get("description", "")).split()).replace("|", "\\|")


def _table(title: str, prose: str, rows: list[str]) -> str:
    parts = [f"### {title}", prose, "\n".join(["| key | type | default | meaning |", "|---|---|---|---|", *rows])]
    return "\n\n".join(part for part in parts if part) + "\n"


def configuration_page(written: str) -> str:
    """docs/configuration.md: what was written by hand in the page, then the tables."""
    by_hand = written.partition(MARK)[0].rstrip()
    return "\n".join([f"{by_hand}\n\n{MARK}\n\n## Every key\n", *KeyTables().sections()])


if __name__ == "__main__":
    print(configuration_page(Path(sys.argv[1]).read_text()), end="")
