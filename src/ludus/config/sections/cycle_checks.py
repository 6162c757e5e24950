"""What `cycle`, `buffer.feeds` and `buffer.loader` cannot be together with, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterator

from ludus.config.problems import Contradiction, Path
from ludus.config.run import RunConfig
from ludus.config.sections.cycle import CycleConfig
from ludus.config.sections.train_presets import wanted_sources


def cycle_contradictions(config: RunConfig, seats: int) -> Iterator[Contradiction]:
    """Everything about waiting for data that cannot hold together."""
    if config.buffer.loader is not None:
        yield from _loader(config)
    if config.buffer.feeds:
        yield from _feeds(config)
    if config.cycle is not None:
        yield from _mode(config)
        if config.topology == "split":
            yield from _amounts(config, config.cycle, seats)


def _at(path: str | Path, text: str) -> Contradiction:
    return Contradiction(path=tuple(path.split(".")) if isinstance(path, str) else path, text=text)


def _feeds(config: RunConfig) -> Iterator[Contradiction]:
    if config.mode != "train":
        yield _at(
            "buffer.feeds", f"are for mode: train, and mode is {config.mode}; write mode: train, or leave them out"
        )
    if "on_policy" not in wanted_sources(config.train.algorithm):
        yield _at("buffer.feeds", "has no effect: nothing in train.algorithm learns from play; leave them out")
    runs = [feed.run.rstrip("/") for feed in config.buffer.feeds]
    for index, run in enumerate(runs):
        if run in runs[:index]:
            first = f"buffer.feeds.{runs.index(run)}"
            yield _at(("buffer", "feeds", index), f"{run} is already there as {first}; write it once")
    if config.experience.operators:
        text = "has no effect: sequences of buffer.feeds come as their own run verified them"
        yield _at("experience.operators", f"{text}; write it in the config of that run")


def _loader(config: RunConfig) -> Iterator[Contradiction]:
    if config.mode != "train" or config.topology != "split":
        yield _at("buffer.loader", "is read by a trainer that gets no rollouts; write mode: train and topology: split")
    for key in ("expert", "pairs", "feeds"):
        if getattr(config.buffer, key):
            yield _at(f"buffer.{key}", "has no effect: the trainer pulls every batch from buffer.loader; leave out one")
    if config.cycle is not None:
        yield _at("cycle", "waits for sequences in the buffer, and buffer.loader brings none; leave out one of them")


def _mode(config: RunConfig) -> Iterator[Contradiction]:
    if config.population is not None:
        yield _at("cycle", "is for one policy that learns, and there is a population; leave out one of them")
    elif config.mode in ("explore", "evaluate"):
        yield _at("cycle", f"is for runs that train, and mode is {config.mode}; leave it out")
    elif config.mode == "train" and not config.buffer.feeds:
        yield _at("cycle", "waits for new data, and none can come with mode: train alone; write buffer.feeds, too")
    elif config.mode == "both" and config.schedule == "sync" and config.topology == "split":
        text = "schedule: sync trains on each batch when it has been played, and waits for nothing else"
        yield _at("cycle", f"{text}; write schedule: async, or mode: train with buffer.feeds")


def _amounts(config: RunConfig, cycle: CycleConfig, seats: int) -> Iterator[Contradiction]:
    buffer, episodes = config.buffer, config.train.batch_episodes or 1
    if config.synchronise.interval != 1:
        text = "has no effect: with cycle, a version is published after each round (cycle.updates)"
        yield _at("synchronise.interval", f"{text}; leave it out")
    if cycle.new_sequences > (buffer.capacity or 0):
        text = (
            f"{cycle.new_sequences:,} are more than buffer.capacity ({buffer.capacity:,}), so that the oldest would go"
        )
        yield _at("cycle.new_sequences", f"{text} before they are used; write at most that, or a larger capacity")
    mirrors = any(choice.kind == "mirror" for choice in config.league.opponents)
    batch, uses = episodes * (seats if mirrors else 1), buffer.samples_per_insert or float(buffer.reuse)
    if cycle.updates * batch > cycle.new_sequences * uses:
        needed = f"{cycle.updates:,} updates need {cycle.updates * batch:,} sequences (batches of {batch:,})"
        given = f"but each round gets {cycle.new_sequences:,} new ones, used {uses:g} times"
        at_most = int(cycle.new_sequences * uses // batch)
        instead = f"write cycle.updates: {at_most}" if at_most else f"write cycle.new_sequences: {batch}"
        yield _at("cycle.updates", f"{needed}, {given}; {instead}, or a higher buffer.reuse")
