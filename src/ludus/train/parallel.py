"""Several trainer processes as one learner: each computes a share of every minibatch, gradients are added up (gloo).

The process that holds a `ParallelLearner` is trainer 0; it starts the others (`parallel_helper.py`), tells them what to
do over the same collective operations that add up gradients, and keeps the state that counts. Helpers keep a copy that
goes through the same steps.

Invariants: the result is that of one trainer, to rounding. Nothing but tensors is sent, and only over the loopback
interface, unless trainers are on several machines (`rank_worker.py`). When a helper is lost this process ends too
(`helper_processes.py`).
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import torch
import torch.distributed as collective

from ludus.config import RunConfig
from ludus.errors import ProtocolError, WorkerError
from ludus.records import Experiences
from ludus.runtime import Channel
from ludus.storage.arrow import experiences_from_bytes, experiences_to_bytes
from ludus.storage.atomic import temporary_name
from ludus.train.helper_processes import HelperProcesses
from ludus.train.learners import make_sharded_learner, make_torch_learner
from ludus.train.meeting import Peers, interface_of, own_address
from ludus.train.reducer import Reducer
from ludus.train.state_folders import StateFiles
from ludus.train.torch_learner import TorchLearner
from ludus.train.torch_state import Tensors, TorchState
from ludus.train.tracing import Tracer

STOP, LOAD, TRAIN = range(3)
_ORDER_SIZE = 4


class GlooReducer(Reducer):
    """One of several trainers; gradients that are on a GPU go by NCCL."""

    def __init__(self, *, rank: int, size: int, store: Any, timeout_s: float, interface: str = "lo") -> None:
        """Meet the others in a store that they all know; blocks until all are there."""
        os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = interface
        self.rank, self.size = rank, size
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        collective.init_process_group(
            backend, store=store, rank=rank, world_size=size, timeout=timedelta(seconds=timeout_s)
        )
        self.add_up(torch.zeros(1))

    def add_up(self, tensor: torch.Tensor) -> None:
        """Replace the tensor by its sum."""
        collective.all_reduce(tensor)

    def hand_out(self, tensor: torch.Tensor) -> None:
        """Replace the tensor by that of trainer 0."""
        collective.broadcast(tensor, src=0)

    def close(self) -> None:
        """Leave the others."""
        collective.destroy_process_group()


def file_store(meeting_place: Path, size: int) -> Any:
    """For trainers of one machine: a file that all of them know, until they have met."""
    return collective.FileStore(str(meeting_place), size)  # type: ignore[attr-defined]


class StoreAt(msgspec.Struct, tag="store_at", kw_only=True):
    """Where trainers on several machines find each other's addresses."""

    host: str
    port: int


class Go(msgspec.Struct, tag="go", kw_only=True):
    """An order comes by the collective operations now. Until then nobody waits in one, which would end in time."""


def open_collective(config: RunConfig, peers: Peers) -> tuple[list[Channel[Go]], GlooReducer]:
    """Trainer 0's connections to the others, and what adds up."""
    host, limit = own_address(peers.interface), timedelta(seconds=config.runtime.stall_s)
    channels: list[Channel[Go]] = [Channel(sock, Go) for sock in peers.sockets]
    size = config.train.trainers
    listener = socket.create_server((host, 0))  # else the store listens on all interfaces
    port = listener.getsockname()[1]
    store = collective.TCPStore(  # type: ignore[attr-defined]
        host, port, size, True, limit, wait_for_workers=False, master_listen_fd=listener.detach()
    )
    for channel in channels:
        channel.send(StoreAt(host=host, port=port))
    timeout_s = config.runtime.stall_s
    return channels, GlooReducer(rank=0, size=size, store=store, timeout_s=timeout_s, interface=interface_of(host))


def join_collective(config: RunConfig, sock: socket.socket, *, rank: int) -> tuple[Channel[StoreAt | Go], GlooReducer]:
    """The connection of another trainer to trainer 0, and what adds up."""
    limit_s, size = config.runtime.stall_s, config.train.trainers
    channel: Channel[StoreAt | Go] = Channel(sock, StoreAt | Go)
    if not (frames := channel.wait(limit_s)) or not isinstance(at := frames[0][0], StoreAt):
        raise ProtocolError("trainer 0 did not say where the store is")
    store = collective.TCPStore(  # type: ignore[attr-defined]
        at.host, at.port, size, False, timedelta(seconds=limit_s), wait_for_workers=False
    )
    interface = interface_of(sock.getsockname()[0])
    return channel, GlooReducer(rank=rank, size=size, store=store, timeout_s=limit_s, interface=interface)


class Announcements:
    """What trainer 0 has announced and another trainer has not taken part in yet."""

    def __init__(self, channel: Channel[StoreAt | Go], tell: Callable[[bool], None]) -> None:
        """`tell` is called with whether there is work."""
        self._channel, self._tell = channel, tell
        self._waiting = 0

    def await_next(self) -> None:
        """Wait for an order as long as it takes; raises EOFError when the connection has ended."""
        self._tell(False)
        if not self._waiting:
            self._waiting += len(self._channel.wait(None))
        self._waiting -= 1
        self._tell(True)


def meet_helpers(
    config: RunConfig, shape: Mapping[str, Any], teacher: Mapping[str, Any] | None, scratch: Path | None
) -> tuple[HelperProcesses, GlooReducer]:
    """The other trainers as processes below this one."""
    room = temporary_name(scratch or Path(tempfile.gettempdir()))
    room.mkdir()
    meeting_place, size = room / "store", config.train.trainers
    setup = {
        "config": config.model_dump_json(),
        "shape": dict(shape),
        "teacher": dict(teacher) if teacher else None,
        "meeting_place": str(meeting_place),
        "states": str(scratch) if scratch is not None else None,
        "threads": torch.get_num_threads(),
    }
    helpers = HelperProcesses([{**setup, "rank": rank} for rank in range(1, size)])
    try:  # at the meeting place there is no way to see that one has died
        helpers.await_all(lambda rank: sign_of(meeting_place, rank).exists())
    except WorkerError:
        shutil.rmtree(room, ignore_errors=True)
        raise
    store = file_store(meeting_place, size)
    reducer = GlooReducer(rank=0, size=size, store=store, timeout_s=config.runtime.stall_s)
    shutil.rmtree(room)
    return helpers, reducer


class ParallelLearner:
    """The same face as `TorchLearner`, with `train.trainers` processes behind it."""

    def __init__(
        self,
        config: RunConfig,
        shape: Mapping[str, Any],
        *,
        teacher: Mapping[str, Any] | None = None,
        scratch: Path | None = None,
        peers: Peers | None = None,
    ) -> None:
        self._channels: list[Channel[Go]] = []
        self._helpers: HelperProcesses | Peers
        if peers is None:
            self._helpers, self._reducer = meet_helpers(config, shape, teacher, scratch)
        else:
            self._helpers = peers
            self._channels, self._reducer = open_collective(config, peers)
        self._learner = make_torch_learner(config, shape, teacher=teacher, reducer=self._reducer)
        self._handed_out: torch.Tensor | None = None

    def init(self, seed: int) -> TorchState:
        """Fresh weights and optimizer."""
        return self._learner.init(seed)

    def state_tensors(self, state: TorchState) -> dict[str, Tensors]:
        """The state as NumPy arrays."""
        return self._learner.state_tensors(state)

    def state_from_tensors(self, tensors: Mapping[str, Mapping[str, Any]]) -> TorchState:
        """The inverse; refuses tensors of another policy or optimizer."""
        return self._learner.state_from_tensors(tensors)

    def train_batch(
        self, state: TorchState, experiences: Experiences, seed: int, progress: float
    ) -> tuple[TorchState, dict[str, float]]:
        """One update by all trainers. The state is changed in place and given back."""
        try:
            if self._handed_out is not state.vector:
                self._announce()
                hand_out_state(state, self._reducer)
                self._handed_out = state.vector
            self._announce()
            hand_out_batch(experiences, seed, progress, self._reducer)
            return self._learner.train_batch(state, experiences, seed, progress)
        except (RuntimeError, OSError) as error:
            self._helpers.give_up(error)

    def trace_by(self, tracer: Tracer) -> None:
        """Let somebody see what the weights think of each batch; only this process scores it."""
        self._learner.trace_by(tracer)

    def probe(self, state: TorchState) -> dict[str, Any]:
        """What the weights think of the probe's tokens; only this process scores it."""
        return self._learner.probe(state)

    def _announce(self) -> None:
        for channel in self._channels:
            channel.send(Go())

    def close(self) -> None:
        """End the helpers."""
        with suppress(RuntimeError, OSError):
            self._announce()
            self._reducer.hand_out(torch.tensor([STOP, 0, 0, 0]))
        with suppress(RuntimeError, OSError):  # also where a helper that was lost takes no order
            self._reducer.close()
        self._helpers.end()


def sign_of(meeting_place: Path, rank: int) -> Path:
    """The file by which a helper says that it is at the meeting place."""
    return meeting_place.with_name(f"trainer-{rank}")


def hand_out_state(state: TorchState, reducer: GlooReducer) -> None:
    """Let every helper have this state."""
    reducer.hand_out(torch.tensor([LOAD, state.steps, state.skipped, 0]))
    for vector in (state.vector, *state.moments.values()):
        reducer.hand_out(vector)


def hand_out_batch(experiences: Experiences, seed: int, progress: float, reducer: GlooReducer) -> None:
    """Let every helper train on this."""
    blob = torch.frombuffer(bytearray(experiences_to_bytes(experiences)), dtype=torch.uint8)
    bits = torch.tensor(progress, dtype=torch.float64).view(torch.int64)
    reducer.hand_out(torch.tensor([TRAIN, seed, int(bits), len(blob)]))
    reducer.hand_out(blob)


def follow(learner: TorchLearner, reducer: GlooReducer, await_order: Callable[[], None] = lambda: None) -> None:
    """A helper's life: do what trainer 0 says until it says stop."""
    state = learner.init(0)
    while True:
        await_order()
        order = torch.empty(_ORDER_SIZE, dtype=torch.int64)
        reducer.hand_out(order)
        kind, first, second, size = order.tolist()
        if kind == STOP:
            return
        if kind == LOAD:
            state.steps, state.skipped = first, second
            for vector in (state.vector, *state.moments.values()):
                reducer.hand_out(vector)
        else:
            blob = torch.empty(size, dtype=torch.uint8)
            reducer.hand_out(blob)
            progress = float(torch.tensor(second).view(torch.float64))
            state, _ = learner.train_batch(state, experiences_from_bytes(blob.numpy().tobytes()), first, progress)


def follow_trainer(
    config: RunConfig,
    shape: Mapping[str, Any],
    teacher: Mapping[str, Any] | None,
    reducer: GlooReducer,
    states: StateFiles,
    await_order: Callable[[], None] = lambda: None,
) -> None:
    """The life of a trainer that is not trainer 0, with a copy of the state or a shard of it."""
    if config.train.sharding is None:
        follow(make_torch_learner(config, shape, teacher=teacher, reducer=reducer), reducer, await_order)
        return
    from ludus.train.sharded_trainers import follow_sharded

    learner = make_sharded_learner(config, shape, teacher=teacher, reducer=reducer)
    follow_sharded(learner, reducer, states, await_order)
