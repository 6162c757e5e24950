"""From a file's columns to a task's fields.

Invariant: `prompt` comes out as text. Chat lists, as many datasets have them, become the text of their one question,
with a system message before it as the field `system`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ludus.config import RESERVED_FIELDS, shorten
from ludus.errors import ConfigError
from ludus.tasks.json_values import Flaw

_ROLES = ("system", "user")


def pick_columns(source: str, present: Sequence[str], paths: Sequence[str]) -> list[str]:
    """The columns of a table that these paths (`a`, or b inside of a: `a.b`) lead into; no paths mean all columns.

    Raises:
        ConfigError: there is no such column, or a name stands twice.
    """
    if len(set(present)) < len(present):
        raise ConfigError(f"{source}: two columns have the same name")
    columns = [path if path in present else path.partition(".")[0] for path in paths] or list(present)
    missing = [name for name in columns if name not in present]
    if missing:
        raise ConfigError(f"{source}: no column {', '.join(missing)}; it has {shorten(', '.join(present), 200)}")
    return list(dict.fromkeys(columns))


def map_fields(columns: Mapping[str, Any], mapping: Mapping[str, str]) -> dict[str, Any]:
    """The fields of one row.

    Raises:
        Flaw: a column that the mapping names is not there, or the prompt is no question.
        ConfigError: without a mapping, a column has a name that tasks use themselves.
    """
    fields = {name: _find(columns, column) for name, column in mapping.items()} if mapping else dict(columns)
    taken = [name for name in RESERVED_FIELDS if name in fields]
    if taken:
        raise ConfigError(f"column {taken[0]!r} has a name that tasks use themselves; give it another one in `fields`")
    if isinstance(fields.get("prompt"), list):
        fields |= _question(fields["prompt"], fields)
    return fields


def check_fields(fields: Mapping[str, Any], required: Sequence[str]) -> None:
    """Check that the required fields are there, as text that is not blank, and none that tasks use themselves."""
    for name in RESERVED_FIELDS:
        if name in fields:
            raise Flaw(f"field {name}: tasks use this name themselves")
    for name in required:
        if name not in fields:
            raise Flaw(f"no field {name!r}; it has {shorten(', '.join(fields), 200) or 'none'}")
        if not isinstance(fields[name], str) or not fields[name].strip():
            raise Flaw(f"field {name}: expected text that is not blank")


def _find(columns: Mapping[str, Any], path: str) -> Any:
    if path in columns:
        return columns[path]
    value: Any = columns
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise Flaw(f"no field {path!r}; it has {shorten(', '.join(map(str, columns)), 200) or 'none'}")
        value = value[part]
    return value


def _question(messages: list[Any], fields: Mapping[str, Any]) -> dict[str, str]:
    """The fields that a chat list of one question stands for."""
    texts: dict[str, str] = {}
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("content"), str):
            raise Flaw("field prompt: expected text, or messages with role and content")
        role = message.get("role")
        if role not in _ROLES or role in texts:
            raise Flaw("field prompt: expected one system and one user message; longer conversations are no prompts")
        texts[role] = message["content"]
    if "user" not in texts:
        raise Flaw("field prompt: no message of the user")
    system = {"system": texts["system"]} if "system" in texts and "system" not in fields else {}
    return {"prompt": texts["user"], **system}
