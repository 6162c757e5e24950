"""The protocol as JSON Schema, and as the page docs/protocol.md (by `make pages`); both are made from the registry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic.json_schema import models_json_schema

from ludus.config import DIALECT, SETTABLE
from ludus.daemon.messages import COMMANDS, NOTIFICATIONS, REPLIES, Payload

_TEMPLATE = "#/$defs/{model}"


def protocol_schema() -> dict[str, Any]:
    """All messages: `$defs.command` is any line that a client may send, `$defs.message` any that it is sent."""
    kinds = {*COMMANDS.values(), *REPLIES.values(), *NOTIFICATIONS.values()}
    ordered = sorted(kinds, key=lambda kind: kind.__name__)
    _, payloads = models_json_schema([(kind, "validation") for kind in ordered], ref_template=_TEMPLATE)
    definitions: dict[str, Any] = payloads["$defs"]
    for definition in definitions.values():
        for field in definition.get("properties", {}).values():
            field.pop("title", None)
    definitions["command"] = {"oneOf": [_line(kind, has_id=True) for kind in COMMANDS.values()]}
    sent = {**REPLIES, **NOTIFICATIONS}
    definitions["message"] = {"oneOf": [_line(kind, has_id=name in REPLIES) for name, kind in sent.items()]}
    return {
        "$schema": DIALECT,
        "title": "ludus daemon",
        "description": "One JSON object a line, in both directions.",
        "oneOf": [{"$ref": "#/$defs/command"}, {"$ref": "#/$defs/message"}],
        "$defs": dict(sorted(definitions.items())),
    }


def _line(kind: type[Payload], *, has_id: bool) -> Mapping[str, Any]:
    properties: dict[str, Any] = {"type": {"const": kind.type}, "payload": {"$ref": f"#/$defs/{kind.__name__}"}}
    if has_id:
        properties["id"] = {"type": ["string", "integer", "null"]}
    needs_payload = any(field.is_required() for field in kind.model_fields.values())
    return {
        "type": "object",
        "properties": properties,
        "required": ["type", "payload"] if needs_payload else ["type"],
        "additionalProperties": False,
    }


HEAD = """# The protocol of the daemon

<!-- made by `make pages` from src/ludus/daemon/messages.py: change that, not this -->

One JSON object a line, in both directions: `{"type": ..., "payload": {...}, "id": ...}`. `ludus daemon` speaks it over
standard input and output, and every live run (also one of `ludus run`) at the Unix socket `control.sock` in its
directory. [The daemon](daemon.md) tells how to use it, with a transcript. The same as JSON Schema:
`ludus daemon --schema`.

- Every line that a client sends gets exactly one reply, an `ack` or an `error`, with the id of the command (null where
  it had none, or where none could be found in a line that is no message).
- Everything else that a client is sent is a notification, without an id. `subscribe` chooses which.
- A line has at most 1,000,000 bytes. A client should pass over types and keys that it does not know.
- A client that begins with `start_training` in the Leela daemon's own shape (`config_filepath` alone, no id) is taken
  for that daemon's client: it is told `training_status` and nothing else, and its commands are not answered, because
  its reader ends at any other message. What is wrong is in the log. With the first line that only a client of ludus
  can have written, that ends.
"""


def page() -> str:
    """The whole page."""
    definitions = protocol_schema()["$defs"]
    parts = [
        HEAD,
        "## Commands\n",
        *(_section(f"`{kind.type}`", definitions[kind.__name__]) for kind in COMMANDS.values()),
        "Keys that `set` takes:\n\n| key | what it is |\n|---|---|\n"
        + "".join(f"| `{key}` | {what} |\n" for key, what in SETTABLE.items()),
        "## Replies\n",
        *(_section(f"`{kind.type}`", definitions[kind.__name__]) for kind in REPLIES.values()),
        "## Notifications\n",
        *(
            _section(f"`{kind.type}`", definitions[kind.__name__])
            for name, kind in NOTIFICATIONS.items()
            if name not in REPLIES
        ),
        "## Parts of messages\n",
        *(_section(name, definitions[name]) for name in _parts(definitions)),
    ]
    return "\n".join(parts)


def _section(title: str, definition: dict[str, Any]) -> str:
    return f"### {title}\n\n{_text(definition)}\n{_table(definition)}"


def _parts(definitions: dict[str, Any]) -> Iterator[str]:
    messages = {kind.__name__ for kind in (*COMMANDS.values(), *REPLIES.values(), *NOTIFICATIONS.values())}
    return (name for name in definitions if name not in messages and name not in ("command", "message"))


def _table(definition: dict[str, Any]) -> str:
    fields = definition.get("properties", {})
    if not fields:
        return ""
    required = set(definition.get("required", ()))
    rows = [
        f"| `{name}` | {_kind(field)} | {'must be given' if name in required else _default(field)} | {_text(field)} |\n"
        for name, field in fields.items()
    ]
    return "\n| key | value | default | |\n|---|---|---|---|\n" + "".join(rows)


def _kind(field: dict[str, Any]) -> str:
    if "$ref" in field:
        name = field["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in field:
        return " or ".join(_kind(variant) for variant in field["anyOf"])
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if field.get("type") == "array":
        return f"list of {_kind(field['items'])}" if "items" in field else "list"
    if field.get("type") == "object" and isinstance(field.get("additionalProperties"), dict):
        return f"mapping to {_kind(field['additionalProperties'])}"
    return str(field.get("type", "anything"))


def _default(field: dict[str, Any]) -> str:
    return f"`{json.dumps(field['default'])}`" if "default" in field and not isinstance(field["default"], dict) else ""


def _text(definition: dict[str, Any]) -> str:
    return " ".join(str(definition.get("description", "")).split()).replace("<", "&lt;")


if __name__ == "__main__":
    print(page(), end="")
