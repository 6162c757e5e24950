"""`checkpoint`: when the state of a run is saved."""

from __future__ import annotations

from pydantic import Field

from ludus.config.base import Model


class CheckpointConfig(Model):
    """When the state of the run is saved, and how many saves are kept."""

    every: int | None = Field(default=None, gt=0)
    """Updates between checkpoints. Default: 50 in the fused topology, `synchronise.interval` in the split one, 25
    (generations) in the tabular one. When a version is published, the state is saved too; with a language model in the
    synchronous schedule it is not: a version between two checkpoints is weights alone, which a resume makes again."""
    keep: int = Field(default=3, ge=2)
    """Checkpoints kept; the one before the newest is the fallback when the newest is damaged."""
