"""The helpers of a `ParallelJaxLearner`: processes that compute shares, and what is said between them and trainer 0.

Invariants: answers come in the order of the ranks. Bytes go through socket pairs, and nothing is unpickled. A helper
keeps nothing but the batch that it was sent last.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors import numpy as safetensors

from ludus.config import RunConfig
from ludus.errors import ProtocolError, WorkerError
from ludus.runtime import Channel, Stop
from ludus.train.batches import Batch, pad
from ludus.train.helper_processes import HelperProcesses
from ludus.train.jax_share import JaxShare
from ludus.train.learners import make_network_learner
from ludus.train.parallel_messages import FromHelper, Ready, ShareBatch, Shared, ShareMinibatch, ToHelper

Floats = NDArray[np.float32]


class NetworkHelpers:
    """Trainers 1, 2, ... of a network, as trainer 0 sees them."""

    def __init__(self, config: RunConfig, shape: Mapping[str, Any]) -> None:
        """Start the processes; `await_ready` says when they listen."""
        pairs = [socket.socketpair() for _ in range(1, config.train.trainers)]
        setups = [
            {"config": config.model_dump_json(), "shape": dict(shape), "rank": rank, "socket": theirs.fileno()}
            for rank, (_, theirs) in enumerate(pairs, start=1)
        ]
        self.helpers = HelperProcesses(setups, descriptors=[theirs.fileno() for _, theirs in pairs])
        for _, theirs in pairs:
            theirs.close()
        self._channels: list[Channel[object]] = [Channel(ours, FromHelper) for ours, _ in pairs]
        self._patience_s = config.runtime.stall_s

    def await_ready(self) -> None:
        """Wait until all of them listen.

        Raises:
            WorkerError: one did not start; none is left.
        """
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


def pack_batch(batch: Batch) -> bytes:
    """The rows of a padded batch that count."""
    count = int(np.count_nonzero(batch["weight"]))
    return safetensors.save({name: np.ascontiguousarray(column[:count]) for name, column in batch.items()})


def respond(share: JaxShare, message: object, blob: memoryview) -> bytes | None:
    """Do what trainer 0 asks for; what it is to be answered, if anything."""
    if isinstance(message, ShareBatch):
        share.load(pad(safetensors.load(bytes(blob)), message.rows), message.seed, message.progress)
    elif isinstance(message, ShareMinibatch):
        answer = share.compute(np.frombuffer(blob, np.float32), epoch=message.epoch, number=message.number)
        return np.asarray(answer).tobytes()
    return None


def follow(config: RunConfig, shape: Mapping[str, Any], *, rank: int, sock: socket.socket) -> None:
    """A helper's life: compute what trainer 0 asks for until it says stop."""
    channel: Channel[object] = Channel(sock, ToHelper)
    share = JaxShare(make_network_learner(config, shape), config.train, rank=rank, size=config.train.trainers)
    channel.send(Ready())
    while True:
        for message, blob in channel.wait(None):
            if isinstance(message, Stop):
                return
            answer = respond(share, message, blob)
            if answer is not None:
                channel.send(Shared(), answer)
                channel.drain(config.runtime.stall_s)
