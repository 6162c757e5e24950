"""`synchronise`: how often a version is published, and how far play may be ahead of training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import Field

from ludus.config.base import Model
from ludus.config.problems import Contradiction, at
from ludus.config.sections.games import seats_per_game
from ludus.config.sections.train_presets import wanted_sources

if TYPE_CHECKING:
    from ludus.config.run import RunConfig


class SynchroniseConfig(Model):
    """How explorers and trainer keep step. With `schedule: sync` the style is *fixed*, with `async`
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


def check_synchronise(config: RunConfig) -> Iterator[Contradiction]:
    """What an offset needs; split topology only."""
    offset, episodes, seats = config.synchronise.offset, config.train.batch_episodes or 1, seats_per_game(config)
    if not offset or config.topology != "split":
        return
    if config.schedule == "async":
        text = f"{offset} is for schedule: sync; with schedule: async, train.max_staleness says how far play is ahead"
        yield at("synchronise.offset", f"{text}; write synchronise.offset: 0, or schedule: sync")
        return
    if "on_policy" not in wanted_sources(config.train.algorithm):
        text = "has no effect: nothing in train.algorithm learns from play; write synchronise.offset: 0"
        yield at("synchronise.offset", text)
    capacity, needed = config.buffer.capacity or 0, (offset + 1) * episodes * seats
    if capacity < needed:
        text = f"{offset + 1} batches (train.batch_episodes: {episodes}, {seats} seats each) wait at once, more than"
        yield at("synchronise.offset", f"{text} buffer.capacity ({capacity}); write at least {needed} there")
