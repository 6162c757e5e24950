"""What `synchronise` cannot be together with. Each check names the other key and says what to write instead."""

from __future__ import annotations

from collections.abc import Iterator

from ludus.config.problems import Contradiction
from ludus.config.run import RunConfig
from ludus.config.sections.train_presets import wanted_sources


def synchronise_contradictions(config: RunConfig, seats: int) -> Iterator[Contradiction]:
    """Everything about the fixed and the driven style that cannot hold together; split topology only."""
    offset, episodes = config.synchronise.offset, config.train.batch_episodes or 1
    if not offset:
        return
    if config.schedule == "async":
        text = f"{offset} is for schedule: sync; with schedule: async, train.max_staleness says how far play is ahead"
        yield _at("offset", f"{text}; write synchronise.offset: 0, or schedule: sync")
        return
    if "on_policy" not in wanted_sources(config.train.algorithm):
        text = "has no effect: nothing in train.algorithm learns from play; write synchronise.offset: 0"
        yield _at("offset", text)
    needed = (offset + 1) * episodes * seats
    if (config.buffer.capacity or 0) < needed:
        text = f"{offset + 1} batches (train.batch_episodes: {episodes}, {seats} seats each) wait at once, more than"
        yield _at("offset", f"{text} buffer.capacity ({config.buffer.capacity}); write at least {needed} there")


def _at(key: str, text: str) -> Contradiction:
    return Contradiction(path=("synchronise", key), text=text)
