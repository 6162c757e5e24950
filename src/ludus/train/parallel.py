"""Several trainer processes as one learner: each computes a share of every minibatch, gradients are added up (gloo).

The process that holds a `ParallelLearner` is trainer 0; it starts the others (`parallel_helper.py`), tells them what to
do over the same collective operations that add up gradients, and keeps the state that counts. Helpers keep a copy that
goes through the same steps.

Invariants: the result is that of one trainer, to rounding. Nothing but tensors is sent, and only over the loopback
interface. When a helper is lost this process ends too (`helper_processes.py`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as collective

from ludus.config import RunConfig
from ludus.errors import WorkerError
from ludus.records import Experiences
from ludus.storage.arrow import experiences_from_bytes, experiences_to_bytes
from ludus.storage.atomic import temporary_name
from ludus.train.helper_processes import HelperProcesses
from ludus.train.learners import make_torch_learner
from ludus.train.torch_learner import TorchLearner
from ludus.train.torch_scoring import Reducer
from ludus.train.torch_state import Tensors, TorchState

STOP, LOAD, TRAIN = range(3)
_ORDER_SIZE = 4


class GlooReducer(Reducer):
    """One of several trainers on this machine."""

    def __init__(self, *, rank: int, size: int, meeting_place: Path, timeout_s: float) -> None:
        """Meet the others through a file that they all know; blocks until all are there and need it no more."""
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        self.rank, self.size = rank, size
        store = collective.FileStore(str(meeting_place), size)  # type: ignore[attr-defined]
        collective.init_process_group(
            "gloo", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=timeout_s)
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


class ParallelLearner:
    """The same face as `TorchLearner`, with `train.trainers` processes behind it."""

    def __init__(
        self,
        config: RunConfig,
        shape: Mapping[str, Any],
        *,
        teacher: Mapping[str, Any] | None = None,
        scratch: Path | None = None,
    ) -> None:
        room = temporary_name(scratch or Path(tempfile.gettempdir()))
        room.mkdir()
        meeting_place, size = room / "store", config.train.trainers
        setup = {
            "config": config.model_dump_json(),
            "shape": dict(shape),
            "teacher": dict(teacher) if teacher else None,
            "meeting_place": str(meeting_place),
            "threads": torch.get_num_threads(),
        }
        self._helpers = HelperProcesses([{**setup, "rank": rank} for rank in range(1, size)])
        try:  # at the meeting place there is no way to see that one has died
            self._helpers.await_all(lambda rank: sign_of(meeting_place, rank).exists())
        except WorkerError:
            shutil.rmtree(room, ignore_errors=True)
            raise
        self._reducer = GlooReducer(rank=0, size=size, meeting_place=meeting_place, timeout_s=config.runtime.stall_s)
        shutil.rmtree(room)
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
                hand_out_state(state, self._reducer)
                self._handed_out = state.vector
            hand_out_batch(experiences, seed, progress, self._reducer)
            return self._learner.train_batch(state, experiences, seed, progress)
        except RuntimeError as error:
            self._helpers.give_up(error)

    def close(self) -> None:
        """End the helpers."""
        with suppress(RuntimeError):
            self._reducer.hand_out(torch.tensor([STOP, 0, 0, 0]))
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


def follow(learner: TorchLearner, reducer: GlooReducer) -> None:
    """A helper's life: do what trainer 0 says until it says stop."""
    state = learner.init(0)
    while True:
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
