"""What all config models share: frozen, strict, no unknown keys, and what may stand in place of a mapping."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator


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
