"""Several trainer processes as one learner of a network: each computes a share of every minibatch.

The process that holds a `ParallelJaxLearner` is trainer 0. It sends the weights to the others (`parallel_helper.py`),
adds their shares to its own in the order of their ranks, takes the optimizer's step and keeps the state. Helpers keep
nothing but the batch, so all trainers have the same weights at every minibatch.

Invariants: the result is that of one trainer, to rounding, and the same bits whenever it is computed again. Bytes go
through socket pairs, and nothing is unpickled. When a helper is lost this process ends too, so that whoever supervises
it replaces all of them together.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray
from safetensors import numpy as safetensors

from ludus.config.learn import TrainConfig
from ludus.config.run import RunConfig
from ludus.errors import ProtocolError, WorkerError
from ludus.records import Experiences
from ludus.runtime import Channel, Stop
from ludus.train.batches import Batch, pad
from ludus.train.helper_processes import HelperProcesses
from ludus.train.jax_share import JaxShare
from ludus.train.jax_walk import Walk
from ludus.train.learner_metrics import Metrics
from ludus.train.learner_state import LearnerState, Tensors
from ludus.train.learners import make_network_learner
from ludus.train.parallel_messages import FromHelper, Ready, ShareBatch, Shared, ShareMinibatch, ToHelper

Floats = NDArray[np.float32]


class ParallelJaxLearner:
    """The same face as `JaxLearner`, with `train.trainers` processes behind it."""

    def __init__(self, config: RunConfig, shape: Mapping[str, Any]) -> None:
        size, self._patience_s = config.train.trainers, config.runtime.stall_s
        pairs = [socket.socketpair() for _ in range(1, size)]
        setups = [
            {"config": config.model_dump_json(), "shape": dict(shape), "rank": rank, "socket": theirs.fileno()}
            for rank, (_, theirs) in enumerate(pairs, start=1)
        ]
        self._helpers = HelperProcesses(setups, descriptors=[theirs.fileno() for _, theirs in pairs])
        for _, theirs in pairs:
            theirs.close()
        self._channels: list[Channel[object]] = [Channel(ours, FromHelper) for ours, _ in pairs]
        self._learner = make_network_learner(config, shape)
        self._share = JaxShare(self._learner, config.train, rank=0, size=size)
        self._train: TrainConfig = config.train
        self._begin, self._take, self._conclude = (jax.jit(x) for x in (self._started, self._taken, self._concluded))
        self._await_helpers()

    def init(self, seed: int) -> LearnerState:
        """Fresh weights and optimizer."""
        return self._learner.init(seed)

    def state_tensors(self, state: LearnerState) -> dict[str, Tensors]:
        """The state as NumPy arrays."""
        return self._learner.state_tensors(state)

    def state_from_tensors(self, tensors: Mapping[str, Mapping[str, NDArray[Any]]]) -> LearnerState:
        """The inverse; refuses tensors of another policy or optimizer."""
        return self._learner.state_from_tensors(tensors)

    def train_batch(
        self, state: LearnerState, experiences: Experiences, seed: int, progress: float
    ) -> tuple[LearnerState, dict[str, float]]:
        """One update by all trainers.

        Raises:
            TrainError: too many steps in a row were skipped.
        """
        batch = self._learner.padded(state, experiences)
        with self._together():
            self._hand_out(batch, seed, progress)
            self._share.load(batch, seed, progress)
            walk = self._walk(self._begin(state, self._share.batch, np.float32(progress)), np.float32(progress))
        state, metrics = self._conclude(walk, state, self._share.batch, np.float32(progress))
        floats = {name: float(value) for name, value in jax.device_get(metrics).items()}
        self._learner.check_health(floats)
        return state, floats

    def close(self) -> None:
        """End the helpers."""
        for channel in self._channels:
            with suppress(OSError, ProtocolError):
                channel.send(Stop())
            channel.close()
        self._helpers.end()

    # -- the minibatches -------------------------------------------------------------------------------------------

    def _walk(self, walk: Walk, progress: np.float32) -> Walk:
        for epoch in range(self._train.epochs):
            for number in range(self._share.minibatches):
                walk = self._take(walk, self._sum(np.asarray(walk.params), epoch, number), progress)
                if walk.stopped:
                    return walk
        return walk

    def _sum(self, vector: Floats, epoch: int, number: int) -> Floats:
        """What all trainers have computed of a minibatch, added up in the order of their ranks."""
        self._say(ShareMinibatch(epoch=epoch, number=number), vector.tobytes())
        total = np.array(self._share.compute(vector, epoch=epoch, number=number))
        for answer in self._answers():
            total += answer
        return total

    def _started(self, state: LearnerState, batch: Mapping[str, jax.Array], progress: jax.Array) -> Walk:
        vector, _ = ravel_pytree(state.params)
        return self._learner.start(vector, state, batch, self._share.constants(progress))

    def _taken(self, walk: Walk, total: jax.Array, progress: jax.Array) -> Walk:
        names = sorted(name for name in walk.sums if name != "grad_norm")
        gradient, values = jnp.split(total, [len(walk.params)])
        metrics = dict(zip(names, values, strict=True))
        return self._learner.steps.take(walk, gradient, metrics, self._share.constants(progress))

    def _concluded(
        self, walk: Walk, state: LearnerState, batch: Mapping[str, jax.Array], progress: jax.Array
    ) -> tuple[LearnerState, Metrics]:
        return self._learner.steps.conclude(walk, state, batch, self._share.constants(progress))

    # -- the others ------------------------------------------------------------------------------------------------

    def _hand_out(self, batch: Batch, seed: int, progress: float) -> None:
        """Let every helper have the rows that count; it pads them itself."""
        count = int(np.count_nonzero(batch["weight"]))
        blob = safetensors.save({name: np.ascontiguousarray(column[:count]) for name, column in batch.items()})
        self._say(ShareBatch(seed=seed, progress=progress, rows=len(batch["weight"])), blob)

    def _say(self, message: msgspec.Struct, blob: bytes) -> None:
        """Send to every helper, all of it: they are to begin before this process does its own share."""
        for channel in self._channels:
            channel.send(message, blob)
        for channel in self._channels:
            channel.drain(self._patience_s)

    def _answers(self) -> Iterator[Floats]:
        for rank, channel in enumerate(self._channels, start=1):
            frames = channel.wait(self._patience_s)
            if not frames:
                raise ProtocolError(f"trainer {rank} did not answer for {self._patience_s:g} s")
            (_, blob), *_ = frames
            yield np.frombuffer(blob, np.float32)

    def _await_helpers(self) -> None:
        try:
            self._helpers.await_all(self._is_ready)
        except WorkerError:
            for channel in self._channels:
                channel.close()
            raise

    def _is_ready(self, rank: int) -> bool:
        try:
            return any(isinstance(message, Ready) for message, _ in self._channels[rank - 1].receive())
        except EOFError:
            return False

    @contextmanager
    def _together(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError) as error:
            self._helpers.give_up(WorkerError(f"the connection to a helper broke: {error}"))
        except ProtocolError as error:
            self._helpers.give_up(error)


def follow(config: RunConfig, shape: Mapping[str, Any], *, rank: int, sock: socket.socket) -> None:
    """A helper's life: compute what trainer 0 asks for until it says stop."""
    channel: Channel[object] = Channel(sock, ToHelper)
    share = JaxShare(make_network_learner(config, shape), config.train, rank=rank, size=config.train.trainers)
    channel.send(Ready())
    while True:
        for message, blob in channel.wait(None):
            if isinstance(message, Stop):
                return
            if isinstance(message, ShareBatch):
                share.load(pad(safetensors.load(bytes(blob)), message.rows), message.seed, message.progress)
            elif isinstance(message, ShareMinibatch):
                vector = np.frombuffer(blob, np.float32)
                answer = share.compute(vector, epoch=message.epoch, number=message.number)
                channel.send(Shared(), np.asarray(answer).tobytes())
                channel.drain(config.runtime.stall_s)
