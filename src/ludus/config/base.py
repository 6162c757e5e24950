"""What all config models share: frozen, strict, no unknown keys."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Base of every config model. The string under a field documents it in the JSON schema."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True, allow_inf_nan=False
    )

    shorthand: ClassVar[str] = ""
    """What may stand in place of the mapping, in words; empty when nothing may."""
    shorthand_type: ClassVar[str] = "string"
    """The JSON type of that."""
