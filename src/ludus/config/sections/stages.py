"""`stages`: one entry of it. `loading/stages.py` joins an entry with the config around it."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from ludus.config.base import Model


class StageConfig(Model):
    """One stage of a run: a name, and any keys of the run that are others in it.

    Mappings are joined key by key, unless their `kind` is another; everything else, lists too, is replaced.
    """

    model_config = ConfigDict(extra="allow")

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$", examples=["sft"])
    """Name of the stage; it runs in `<number>_<name>` below the run's directory."""

    @property
    def changes(self) -> dict[str, Any]:
        """Plain values by key, as they were written; not checked yet."""
        return dict(self.model_extra or {})
