"""When explorers get new weights: how often a version is published, and how far play may be ahead of training."""

from __future__ import annotations

from pydantic import Field

from ludus.config.base import Model


class SynchroniseConfig(Model):
    """How explorers and trainer keep step. `schedule` says who waits: with `sync` the style is *fixed*, with `async`
    it is *driven* by the trainer."""

    interval: int = Field(default=1, gt=0, le=1_000_000)
    """Updates between two published versions. Snapshots and evaluations that fall due in between are taken with the
    next version."""
    offset: int = Field(default=0, ge=0, le=1000)
    """Schedule sync: batches that are played ahead of the one that is trained on. Batch b, counted from 0, is played
    with the version that was published after update floor(max(b - offset, 0) / interval) * interval."""

    @property
    def updates_behind(self) -> int:
        """Fixed style: updates that the version a batch was played with is behind the weights it trains, at most."""
        return self.offset + self.interval - 1

    @property
    def versions_behind(self) -> int:
        """Fixed style: versions that were published since, at most."""
        return -(-self.offset // self.interval)
