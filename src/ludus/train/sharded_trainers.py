"""Several trainer processes that share a model's weights, as one learner: what trainer 0 orders, all of them do.

Orders go over the collective operations that add up gradients; nothing but tensors is sent. Each trainer writes its own
file of a state, and reads its own rows of one. When a trainer is lost this process ends too, as in `parallel.py`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import torch

from ludus.config import RunConfig
from ludus.errors import LudusError, StorageError
from ludus.records import Experiences
from ludus.storage.arrow import experiences_from_bytes, experiences_to_bytes
from ludus.train.helper_processes import HelperProcesses
from ludus.train.learners import make_sharded_learner
from ludus.train.meeting import Peers
from ludus.train.parallel import GlooReducer, Go, meet_helpers, open_collective
from ludus.train.sharded_learner import ShardedLearner
from ludus.train.sharded_state import ShardedState
from ludus.train.state_folders import StateFiles
from ludus.train.tracing import Tracer, make_tracer

log = logging.getLogger(__name__)

STOP, INIT, READ, BEGIN, TRAIN, WRITE = range(6)
_ORDER_SIZE = 4

T = TypeVar("T")


class ShardedTrainers:
    """The face of a learner, with `train.trainers` processes behind it."""

    def __init__(
        self,
        config: RunConfig,
        shape: Mapping[str, Any],
        *,
        teacher: Mapping[str, Any] | None = None,
        scratch: Path | None = None,
        peers: Peers | None = None,
    ) -> None:
        self._channels: list[Any] = []
        self._traces = 0
        self._helpers: HelperProcesses | Peers
        if peers is None:
            self._helpers, self._reducer = meet_helpers(config, shape, teacher, scratch)
        else:
            self._helpers = peers
            self._channels, self._reducer = open_collective(config, peers)
        try:
            self._learner = make_sharded_learner(config, shape, teacher=teacher, reducer=self._reducer)
        except RuntimeError as error:
            self._helpers.give_up(error)

    def init(self, seed: int) -> ShardedState:
        """Fresh weights and optimizer."""
        return self._all_do(INIT, {"seed": seed}, lambda: self._learner.init(seed))

    def read_state(self, folder: Path, name: str) -> ShardedState:
        """The state in a folder, which all trainers know by its name."""
        return self._all_do(READ, {"name": name}, lambda: self._learner.read_state(folder))

    def begin_with(self, state: ShardedState, files: list[Path]) -> ShardedState:
        """Another run's weights with a fresh optimizer."""
        names = [str(path) for path in files]
        return self._all_do(BEGIN, {"files": names}, lambda: self._learner.begin_with(state, files))

    def write_state(self, state: ShardedState, folder: Path, name: str, *, only_weights: bool = False) -> None:
        """Write a file of each trainer into a folder, which all of them know by its name."""
        what = {"name": name, "only_weights": only_weights}
        self._all_do(WRITE, what, lambda: state.write(folder, rank=0, only_weights=only_weights))

    def train_batch(
        self, state: ShardedState, experiences: Experiences, seed: int, progress: float
    ) -> tuple[ShardedState, dict[str, float]]:
        """One update by all trainers. The state is changed in place and given back."""
        try:
            what = {"seed": seed, "progress": progress, "traces": self._traces}
            self._order(TRAIN, what, experiences_to_bytes(experiences))
            return self._learner.train_batch(state, experiences, seed, progress)
        except (RuntimeError, OSError) as error:
            self._helpers.give_up(error)

    def trace_by(self, tracer: Tracer) -> None:
        """Let somebody see what the weights think of each batch."""
        self._learner.trace_by(tracer)
        self._traces = tracer.count

    def _all_do(self, kind: int, what: Mapping[str, Any], do: Callable[[], T]) -> T:
        try:
            self._order(kind, what)
            return done_by_all(do, self._reducer)
        except (RuntimeError, OSError) as error:
            self._helpers.give_up(error)

    def _order(self, kind: int, what: Mapping[str, Any], blob: bytes = b"") -> None:
        for channel in self._channels:
            channel.send(Go())
        text = json.dumps(what).encode()
        self._reducer.hand_out(torch.tensor([kind, len(text), len(blob), 0]))
        for part in (text, blob):
            if part:
                self._reducer.hand_out(torch.frombuffer(bytearray(part), dtype=torch.uint8))

    def close(self) -> None:
        """End the helpers."""
        with suppress(RuntimeError, OSError):
            self._order(STOP, {})
        with suppress(RuntimeError, OSError):  # also where a helper that was lost takes no order
            self._reducer.close()
        self._helpers.end()


def done_by_all(do: Callable[[], T], reducer: GlooReducer) -> T:
    """What `do` gives, when every trainer has done it. Raises StorageError if another could not."""
    problem: Exception | None = None
    try:
        found = do()
    except (LudusError, OSError) as error:
        problem = error
    failed = torch.zeros(reducer.size)
    failed[reducer.rank] = problem is not None
    reducer.add_up(failed)
    if problem is not None:
        raise problem
    if failed.any():
        raise StorageError(
            f"trainer {int(failed.argmax())} could not read or write its part of a state; its log says why"
        )
    return found


def follow_sharded(
    learner: ShardedLearner,
    reducer: GlooReducer,
    files: StateFiles,
    await_order: Callable[[], None] = lambda: None,
) -> None:
    """Another trainer's life: do what trainer 0 says until it says stop."""
    tracer: Tracer | None = None
    state: Any = None
    while True:
        await_order()
        kind, what, blob = _receive(reducer)
        if kind == STOP:
            return
        if kind == TRAIN:
            if tracer is None:  # what trainer 0 traces, all of them compute
                tracer = make_tracer(learner, what["traces"])
            if tracer is not None:
                tracer.begin(what["seed"])
            state, _ = learner.train_batch(state, experiences_from_bytes(blob), what["seed"], what["progress"])
            continue
        try:
            state = done_by_all(lambda: _obey(learner, reducer, files, kind, what, state), reducer)  # noqa: B023
        except (LudusError, OSError):
            log.exception("this trainer's part of a state could not be read or written")


def _obey(
    learner: ShardedLearner, reducer: GlooReducer, files: StateFiles, kind: int, what: Mapping[str, Any], state: Any
) -> Any:
    if kind == INIT:
        return learner.init(what["seed"])
    if kind == READ:
        return learner.read_state(files.reading(what["name"]))
    if kind == BEGIN:
        return learner.begin_with(state, [Path(name) for name in what["files"]])
    with files.writing(what["name"]) as folder:
        state.write(folder, rank=reducer.rank, only_weights=what["only_weights"])
    return state


def _receive(reducer: GlooReducer) -> tuple[int, dict[str, Any], bytes]:
    order = torch.empty(_ORDER_SIZE, dtype=torch.int64)
    reducer.hand_out(order)
    kind, *sizes, _ = order.tolist()
    texts = []
    for size in sizes:
        part = torch.empty(size, dtype=torch.uint8)
        if size:
            reducer.hand_out(part)
        texts.append(part.numpy().tobytes())
    return int(kind), json.loads(texts[0]), texts[1]
