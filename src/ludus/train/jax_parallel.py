"""Several trainer processes as one learner of a network: each computes a share of every minibatch.

The process that holds a `ParallelJaxLearner` is trainer 0. It sends the weights to the others (`jax_share.py`),
adds their shares to its own in the order of their ranks, takes the optimizer's step and keeps the state. Helpers keep
nothing but the batch, so all trainers have the same weights at every minibatch.

Invariants: the result is that of one trainer, to rounding, and the same bits whenever it is computed again. Bytes go
through socket pairs, or TCP where trainers are on several machines, and nothing is unpickled. When a helper is lost
this process ends too, so that whoever supervises it replaces all of them together.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray
from safetensors import numpy as safetensors

from ludus.config import RunConfig
from ludus.errors import ProtocolError, WorkerError
from ludus.policies import PolicyShape
from ludus.records import Experiences
from ludus.runtime import Channel, Stop
from ludus.train.batches import Batch
from ludus.train.health import checked, not_finite_row
from ludus.train.helper_processes import HelperProcesses
from ludus.train.jax_learner import JaxLearner
from ludus.train.jax_share import FromHelper, JaxShare, Ready, ShareBatch, ShareMinibatch
from ludus.train.jax_steps import EpochState, Metrics
from ludus.train.learner_state import LearnerState
from ludus.train.meeting import Peers

Floats = NDArray[np.float32]


class NetworkHelpers:
    """Trainers 1, 2, ... of a network, as trainer 0 sees them."""

    def __init__(
        self, helpers: HelperProcesses | Peers, sockets: Sequence[socket.socket], *, patience_s: float
    ) -> None:
        """`await_ready` says when they listen."""
        self.helpers = helpers
        self._channels: list[Channel[object]] = [Channel(sock, FromHelper) for sock in sockets]
        self._patience_s = patience_s

    def await_ready(self) -> None:
        """Wait until all of them listen. Raises WorkerError if one did not start; none is left then."""
        try:
            self.helpers.await_all(self._is_ready)
        except WorkerError:
            for channel in self._channels:
                channel.close()
            raise

    def say(self, message: msgspec.Struct, blob: bytes) -> None:
        """Send to every helper, all of it: they are to begin before this process does its own share."""
        for channel in self._channels:
            channel.send(message, blob)
        for channel in self._channels:
            channel.drain(self._patience_s)

    def answers(self) -> Iterator[Floats]:
        """What each has computed."""
        for rank, channel in enumerate(self._channels, start=1):
            frames = channel.wait(self._patience_s)
            if not frames:
                raise ProtocolError(f"trainer {rank} did not answer for {self._patience_s:g} s")
            (_, blob), *_ = frames
            yield np.frombuffer(blob, np.float32)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Work with them; when one is lost in it, this process ends."""
        try:
            yield
        except (EOFError, OSError) as error:
            self.helpers.give_up(WorkerError(f"the connection to a helper broke: {error}"))
        except ProtocolError as error:
            self.helpers.give_up(error)

    def close(self) -> None:
        """End them."""
        for channel in self._channels:
            with suppress(OSError, ProtocolError):
                channel.send(Stop())
            channel.close()
        self.helpers.end()

    def _is_ready(self, rank: int) -> bool:
        try:
            return any(isinstance(message, Ready) for message, _ in self._channels[rank - 1].receive())
        except EOFError:
            return False


def start_helpers(config: RunConfig, shape: Mapping[str, Any]) -> NetworkHelpers:
    """The other trainers as processes below this one."""
    pairs = [socket.socketpair() for _ in range(1, config.train.trainers)]
    setups = [
        {"config": config.model_dump_json(), "shape": dict(shape), "rank": rank, "socket": theirs.fileno()}
        for rank, (_, theirs) in enumerate(pairs, start=1)
    ]
    helpers = HelperProcesses(setups, descriptors=[theirs.fileno() for _, theirs in pairs])
    for _, theirs in pairs:
        theirs.close()
    return NetworkHelpers(helpers, [ours for ours, _ in pairs], patience_s=config.runtime.stall_s)


def meet_helpers(config: RunConfig, peers: Peers) -> NetworkHelpers:
    """The other trainers on whatever machines, met already."""
    return NetworkHelpers(peers, peers.sockets, patience_s=config.runtime.stall_s)


class ParallelJaxLearner(JaxLearner):
    """A `JaxLearner` with `train.trainers` processes behind it."""

    def __init__(self, config: RunConfig, shape: Mapping[str, Any], helpers: NetworkHelpers | None = None) -> None:
        """`helpers` are the other trainers; processes of this machine, unless given."""
        self.helpers = start_helpers(config, shape) if helpers is None else helpers
        super().__init__(PolicyShape.from_json(shape).build(), config.train)
        self._share = JaxShare(self, config.train, rank=0, size=config.train.trainers)
        self._begin, self._take, self._conclude = (jax.jit(x) for x in (self._started, self._taken, self._concluded))
        self.helpers.await_ready()

    def train_batch(
        self, state: LearnerState, experiences: Experiences, seed: int, progress: float
    ) -> tuple[LearnerState, dict[str, float]]:
        """One update by all trainers."""
        batch = self.padded(state, experiences)
        with self.helpers.together():
            self.helpers.say(ShareBatch(seed=seed, progress=progress, rows=len(batch["weight"])), _packed(batch))
            self._share.load(batch, seed, progress)
            epochs = self._share_epochs(
                self._begin(state, self._share.batch, np.float32(progress)), np.float32(progress)
            )
        state, metrics = self._conclude(epochs, state, self._share.batch, np.float32(progress))
        floats = {name: float(value) for name, value in jax.device_get(metrics).items()}
        return state, checked(floats, self._train, lambda: not_finite_row(batch, batch["weight"]))

    def close(self) -> None:
        """End the helpers."""
        self.helpers.close()

    # -- the minibatches -------------------------------------------------------------------------------------------

    def _share_epochs(self, epochs: EpochState, progress: np.float32) -> EpochState:
        for epoch in range(self._train.epochs):
            for number in range(self._share.minibatches):
                epochs = self._take(epochs, self._sum(np.asarray(epochs.params), epoch, number), progress)
                if epochs.stopped:
                    return epochs
        return epochs

    def _sum(self, vector: Floats, epoch: int, number: int) -> Floats:
        """What all trainers have computed of a minibatch, added up in the order of their ranks."""
        self.helpers.say(ShareMinibatch(epoch=epoch, number=number), vector.tobytes())
        total = np.array(self._share.compute(vector, epoch=epoch, number=number))
        for answer in self.helpers.answers():
            total += answer
        return total

    def _started(self, state: LearnerState, batch: Mapping[str, jax.Array], progress: jax.Array) -> EpochState:
        vector, _ = ravel_pytree(state.params)
        return self.start(vector, state, batch, self._share.constants(progress))

    def _taken(self, epochs: EpochState, total: jax.Array, progress: jax.Array) -> EpochState:
        names = sorted(name for name in epochs.sums if name != "grad_norm")
        gradient, values = jnp.split(total, [len(epochs.params)])
        metrics = dict(zip(names, values, strict=True))
        return self.steps.take(epochs, gradient, metrics, self._share.constants(progress))

    def _concluded(
        self, epochs: EpochState, state: LearnerState, batch: Mapping[str, jax.Array], progress: jax.Array
    ) -> tuple[LearnerState, Metrics]:
        return self.steps.conclude(epochs, state, batch, self._share.constants(progress))


def _packed(batch: Batch) -> bytes:
    """The rows of a padded batch that count."""
    count = int(np.count_nonzero(batch["weight"]))
    return safetensors.save({name: np.ascontiguousarray(column[:count]) for name, column in batch.items()})
