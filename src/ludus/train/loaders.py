"""Loaders: sources that a trainer pulls from inside its own process, so that no row goes through the loop.

A loader suits data that is large or that only native code reads fast. Register a factory under a name and ask for it in
the YAML: `buffer: {loader: {kind: my_loader, options: {...}}}`. Its state is saved with the weights of every update, so
a resume continues behind the last batch that was trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import signature
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from ludus.config import LoaderConfig, RunConfig
from ludus.config.parts import LOADERS
from ludus.errors import ConfigError, TrainError
from ludus.extras import need_packages
from ludus.records import Experiences
from ludus.train.health import not_finite_row
from ludus.train.messages import LoaderRefusal, LoaderReport, LoaderStage

Tensors = tuple[NDArray[Any], ...]
"""Columns `[B, ...]`."""
NEEDED = ("action", "mask", "logp", "value", "reward")
"""Columns of steps that every learner reads."""


class Loader(Protocol):
    """Gives batches of experience. Made, called and closed in one thread of the trainer."""

    def next(self) -> Experiences | Tensors:
        """The rows of the next update; for a learner that takes them (chess), tensors with as many rows each.

        Blocks until there are some, and calls `waiting` (below) meanwhile.
        """
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
        """A round begins: admit the oldest so many of those. What was admitted is in `state`.

        After a restart some may not be found yet, or be gone: wait for a bounded time, then admit what is there.
        """
        ...


@runtime_checkable
class StagedLoader(Loader, Protocol):
    """A loader that tells dashboards what its stages are doing."""

    def stages(self) -> list[LoaderStage]:
        """One row for each stage."""
        ...


@runtime_checkable
class ReportingLoader(Loader, Protocol):
    """A loader that tells people what is wrong with its data."""

    def problem(self) -> str:
        """Why no data comes, or less than was expected, in a sentence; empty while all is well."""
        ...

    def take_refusals(self) -> tuple[list[LoaderRefusal], dict[str, int]]:
        """What was refused since the last call; and by reason, how many more than are listed."""
        ...


@runtime_checkable
class ValidatingLoader(Loader, Protocol):
    """A loader that holds out a part of its data."""

    def held_out(self) -> Tensors | None:
        """Rows that are never trained on; None if there are not enough yet."""
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
            factory: LoaderFactory = _factory(chosen.kind)
            signature(factory).bind(**_arguments(factory, config, chosen, lambda: None))
        except TypeError as error:
            raise ConfigError(f"buffer.loader: {chosen.kind}: {error}") from error


def make_loader(config: RunConfig, waiting: Callable[[], None]) -> Loader | None:
    """The loader that a config asks for; None where it asks for none. It calls `waiting` while it waits for data."""
    chosen = config.buffer.loader
    if chosen is None:
        return None
    check_loader(config)
    factory: LoaderFactory = _factory(chosen.kind)
    loader = factory(**_arguments(factory, config, chosen, waiting))
    if lacking := [name for name in ("next", "state", "load_state", "close") if not hasattr(loader, name)]:
        methods = ", ".join(f"{name}()" for name in lacking)
        raise ConfigError(f"loader {chosen.kind}: its factory gives a {type(loader).__name__}, which lacks {methods}")
    return loader


def refuse_other_than_rows(rows: object) -> None:
    """Raise TrainError unless a loader's `next` gave experiences with the columns that a learner reads, or tensors."""
    if isinstance(rows, tuple):
        return
    if not isinstance(rows, Experiences):
        raise TrainError(f"the loader's next() gave a {type(rows).__name__}, expected Experiences")
    if missing := [name for name in NEEDED if name not in rows.steps]:
        raise TrainError(f"the loader's steps lack {', '.join(missing)}")
    count = int(rows.offsets[-1])
    for name, column in rows.steps.items():
        if len(column) != count:
            raise TrainError(f"the loader's {name} has {len(column)} rows, the offsets end at {count}")


def check_rows(rows: Experiences, shape: Mapping[str, Any]) -> None:
    """Raise TrainError for rows that a network of this shape (as JSON) cannot be trained on."""
    if "observation_shape" not in shape:
        return
    wanted, actions, steps = tuple(shape["observation_shape"]), int(shape["actions"]), rows.steps
    game = " and ".join(shape["games"])
    for name, expected in (("observation", wanted), ("legal", (actions,))):
        if name in steps and steps[name].shape[1:] != expected:
            raise TrainError(f"the loader's {name} is {list(steps[name].shape[1:])}, {game} has {list(expected)}")
    action = steps["action"][steps["mask"]]
    if len(action) and not (action.min() >= 0 and action.max() < actions):
        raise TrainError(f"the loader's actions are {action.min()} to {action.max()}, {game} has 0 to {actions - 1}")
    if found := not_finite_row(steps):
        raise TrainError(f"the loader's {found}")


def report_on(loader: Loader, *, update: int) -> LoaderReport | None:
    """What a loader tells of itself as of an update; None for one that tells nothing."""
    if not isinstance(loader, RoundLoader | StagedLoader | ReportingLoader):
        return None
    report = LoaderReport(
        update=update,
        new_sequences=loader.new_sequences() if isinstance(loader, RoundLoader) else 0,
        stages=loader.stages() if isinstance(loader, StagedLoader) else [],
    )
    if isinstance(loader, ReportingLoader):
        report.problem = loader.problem()
        report.refusals, report.unlisted = loader.take_refusals()
    return report


def _factory(kind: str) -> LoaderFactory:
    """What makes a loader of this kind. The room of chess is above this one, and needs packages of its own."""
    if kind != "chess_chunks":
        found: LoaderFactory = LOADERS.find(kind)
        return found
    need_packages("the loader chess_chunks", "ludus_chess")
    made: LoaderFactory = import_module("ludus.chess.loader").ChessChunks
    return made


def _arguments(
    factory: LoaderFactory, config: RunConfig, chosen: LoaderConfig, waiting: Callable[[], None]
) -> dict[str, Any]:
    given = {"config": config, "seed": config.seed, **chosen.options}
    return given | {"waiting": waiting} if "waiting" in signature(factory).parameters else given
