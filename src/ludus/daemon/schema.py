"""The protocol as JSON Schema, made from the registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic.json_schema import models_json_schema

from ludus.config import DIALECT
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
