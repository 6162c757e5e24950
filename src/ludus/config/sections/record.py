"""What is kept of the games for people to look at: `record`."""

from __future__ import annotations

from pydantic import Field

from ludus.config.base import Model


class RecordConfig(Model):
    """What is kept of the games for people to look at, and for how long."""

    sample_every: int | None = Field(default=None, gt=0)
    """Fused topology: updates between recorded samples. Default: with each evaluation."""
    sample_games: int = Field(default=4, ge=0)
    """Fused topology: games recorded per sample."""
    keep_mb: int = Field(default=512, gt=0)
    """Disk budget for episode and experience segments that are no longer needed for training."""
