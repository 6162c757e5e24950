"""Values that several sections take: templates, scalars, and a kind's name in place of its mapping."""

from __future__ import annotations

import re
from string import Formatter
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue

from ludus.config.base import Model

Scalar = str | int | float | bool


class NameAlone:
    """Lets a kind's name stand for the whole mapping: `order: shuffle` for `order: {kind: shuffle}`."""

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        text = {"type": "string", "description": "the kind alone, all its settings at their defaults"}
        return {"anyOf": [text, schema]}


class CustomPart(Model):
    """A part that a plugin registered."""

    kind: Literal["custom"]
    name: str
    """Name it was registered under."""
    options: dict[str, Scalar] = Field(default={})


def kind_alone(value: Any) -> Any:
    """Lets the name of a kind be the whole mapping."""
    return {"kind": value} if isinstance(value, str) else value


def template_parts(text: str) -> tuple[tuple[str, str | None], ...]:
    """A template as (text, name of the field that follows it or None) pairs.

    Raises:
        ValueError: a brace stands alone, or what is in braces is more than the name of a field.
    """
    try:
        parts = list(Formatter().parse(text))
    except ValueError:
        parts = [("", "", None, None)]
    for _, field, form, conversion in parts:
        if field is not None and (form or conversion or not re.fullmatch(r"[A-Za-z_]\w{0,63}", field, re.ASCII)):
            raise ValueError("expected names of fields in braces, such as {question}; {{ and }} are braces themselves")
    return tuple((literal, field) for literal, field, _, _ in parts)


def _check_template(text: str) -> str:
    template_parts(text)
    return text


Template = Annotated[str, Field(max_length=100_000), AfterValidator(_check_template)]
