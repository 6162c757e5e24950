"""Loaders: sources that a trainer pulls from inside its own process, so that no row goes through the loop.

A loader suits data that is large or that only native code reads fast. Register a factory under a name and ask for it in
the YAML: `buffer: {loader: {kind: my_loader, options: {...}}}`. Its state is saved with the weights of every update, so
a resume continues behind the last batch that was trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, Protocol, runtime_checkable

from ludus.config import LoaderConfig, RunConfig
from ludus.config.parts import LOADERS
from ludus.errors import ConfigError
from ludus.records import Experiences
from ludus.train.messages import LoaderReport, LoaderStage


class Loader(Protocol):
    """Gives batches of experience. Made, called and closed in one thread of the trainer."""

    def next(self) -> Experiences:
        """The rows of the next update. Blocks until there are some, and calls `waiting` (below) meanwhile."""
        ...

    def state(self) -> dict[str, Any]:
        """JSON: the place behind the batch that `next` returned last."""
        ...

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned. Called before the first `next`."""
        ...

    def close(self) -> None:
        """Free what the loader holds. Called once, at the end."""
        ...


@runtime_checkable
class RoundLoader(Loader, Protocol):
    """A loader of data that goes on coming in, for runs in rounds (`cycle`). It gives only what it has admitted."""

    def new_sequences(self) -> int:
        """Sequences that are there and are not admitted yet."""
        ...

    def admit(self, sequences: int) -> None:
        """A round begins: admit the oldest so many of those. What was admitted is in `state`."""
        ...


@runtime_checkable
class StagedLoader(Loader, Protocol):
    """A loader that tells dashboards what its stages are doing."""

    def stages(self) -> list[LoaderStage]:
        """One row for each stage."""
        ...


LoaderFactory = Callable[..., Loader]
"""Called with `config` (the run's), `seed`, and the options of the YAML as keyword arguments.

A factory with a parameter `waiting` gets a function under that name. A loader whose data may be long in coming calls it
every few seconds while it waits: a trainer that shows no progress for `runtime.stall_s` counts as hung.
"""


def register_loader(kind: str, factory: LoaderFactory) -> None:
    """Make a loader available as `buffer: {loader: {kind: <kind>}}`."""
    LOADERS.add(kind, factory)


def check_loader(config: RunConfig) -> None:
    """Raise ConfigError unless a config's loader is registered and takes its options; nothing is opened."""
    chosen: LoaderConfig | None = config.buffer.loader
    if chosen is not None:
        try:
            factory: LoaderFactory = LOADERS.find(chosen.kind)
            signature(factory).bind(**_arguments(factory, config, chosen, lambda: None))
        except TypeError as error:
            raise ConfigError(f"buffer.loader: {chosen.kind}: {error}") from error


def make_loader(config: RunConfig, waiting: Callable[[], None]) -> Loader | None:
    """The loader that a config asks for; None where it asks for none. It calls `waiting` while it waits for data."""
    chosen = config.buffer.loader
    if chosen is None:
        return None
    check_loader(config)
    factory: LoaderFactory = LOADERS.find(chosen.kind)
    return factory(**_arguments(factory, config, chosen, waiting))


def report_on(loader: Loader) -> LoaderReport | None:
    """What a loader tells of itself; None for one that tells nothing."""
    is_in_rounds, has_stages = isinstance(loader, RoundLoader), isinstance(loader, StagedLoader)
    if not is_in_rounds and not has_stages:
        return None
    return LoaderReport(
        new_sequences=loader.new_sequences() if isinstance(loader, RoundLoader) else 0,
        stages=loader.stages() if isinstance(loader, StagedLoader) else [],
    )


def _arguments(
    factory: LoaderFactory, config: RunConfig, chosen: LoaderConfig, waiting: Callable[[], None]
) -> dict[str, Any]:
    given = {"config": config, "seed": config.seed, **chosen.options}
    return given | {"waiting": waiting} if "waiting" in signature(factory).parameters else given
