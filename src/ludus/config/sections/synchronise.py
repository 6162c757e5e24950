"""When explorers get new weights, and what training waits for: `synchronise` and `cycle`.

How often a version is published, how far play may be ahead of training, and rounds of training that each wait for new
data; `ludus.runs.cycle` counts the rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import Field

from ludus.config.base import Model
from ludus.config.problems import Contradiction, at, no_effect
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


class CycleConfig(Model):
    """Wait for new data, train, publish, export, and so on: each time around is a round.

    What has come in beyond what was waited for is carried over: the next round waits for that much less, but for half
    of `new_sequences` at least.
    """

    new_sequences: int = Field(gt=0, le=10**9, examples=[2000])
    """New sequences to wait for before each round."""
    updates: int = Field(gt=0, le=10**6, examples=[100])
    """Updates of each round. A version is published after each round."""
    export: str | None = Field(default="exports", min_length=1, max_length=4096)
    """Folder that gets `<policy>-<version>/` after each round; one that is not absolute is under the run's directory.
    null: nothing is exported."""
    keep_exports: int = Field(default=10, gt=0, le=10**6)
    """Exports kept; the oldest go."""


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


def check_cycle(config: RunConfig) -> Iterator[Contradiction]:
    """Everything about waiting for data that cannot hold together."""
    if config.cycle is not None:
        yield from _mode(config)
        if config.topology == "split":
            yield from _amounts(config, config.cycle)


def _mode(config: RunConfig) -> Iterator[Contradiction]:
    if config.population is not None:
        yield at("cycle", "is for one policy that learns, and there is a population; leave out one of them")
    elif config.mode in ("explore", "evaluate"):
        yield at("cycle", f"is for runs that train, and mode is {config.mode}; leave it out")
    elif config.mode == "train" and not config.buffer.feeds:
        yield at("cycle", "waits for new data, and none can come with mode: train alone; write buffer.feeds, too")
    elif config.mode == "both" and config.schedule == "sync" and config.topology == "split":
        text = "schedule: sync trains on each batch when it has been played, and waits for nothing else"
        yield at("cycle", f"{text}; write schedule: async, or mode: train with buffer.feeds")


def _amounts(config: RunConfig, cycle: CycleConfig) -> Iterator[Contradiction]:
    buffer, episodes, seats = config.buffer, config.train.batch_episodes or 1, seats_per_game(config)
    why = "with cycle, a version is published after each round (cycle.updates); leave it out"
    yield from no_effect(config.synchronise, "synchronise", "interval", why)
    if cycle.new_sequences > (buffer.capacity or 0):
        text = (
            f"{cycle.new_sequences:,} are more than buffer.capacity ({buffer.capacity:,}), so that the oldest would go"
        )
        yield at("cycle.new_sequences", f"{text} before they are used; write at most that, or a larger capacity")
    mirrors = any(choice.kind == "mirror" for choice in config.league.opponents)
    batch, uses = episodes * (seats if mirrors else 1), buffer.samples_per_insert or float(buffer.reuse)
    if cycle.updates * batch > cycle.new_sequences * uses:
        needed = f"{cycle.updates:,} updates need {cycle.updates * batch:,} sequences (batches of {batch:,})"
        given = f"but each round gets {cycle.new_sequences:,} new ones, used {uses:g} times"
        at_most = int(cycle.new_sequences * uses // batch)
        instead = f"write cycle.updates: {at_most}" if at_most else f"write cycle.new_sequences: {batch}"
        yield at("cycle.updates", f"{needed}, {given}; {instead}, or a higher buffer.reuse")
