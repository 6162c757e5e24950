"""What config models share: frozen, strict, no unknown keys; templates, and what may stand in place of a mapping."""

from __future__ import annotations

import re
from string import Formatter
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue

Scalar = str | int | float | bool


class Model(BaseModel):
    """Base of every config model. The string under a field documents it in the JSON schema."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True, allow_inf_nan=False
    )

    shorthand: ClassVar[str] = ""
    """What may stand in place of the mapping, in words; empty when nothing may."""
    shorthand_type: ClassVar[str] = "string"
    """The JSON type of that."""


class TextOrMapping(Model):
    """A model of which the value of one key may be written alone, as a text.

    Apart from `Model`, because a validator before the fields makes pydantic check JSON as strictly as Python.
    """

    shorthand_key: ClassVar[str]
    """The key that the text is the value of."""

    @model_validator(mode="before")
    @classmethod
    def _accept_text(cls, value: Any) -> Any:
        return {cls.shorthand_key: value} if isinstance(value, str) else value


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
    """Keyword arguments of what the plugin registered."""


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
