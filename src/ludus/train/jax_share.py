"""One trainer's share of every minibatch of a batch, for several trainers of one network; and a helper, which computes
such shares as trainer 0 asks for them (`jax_parallel.py`).

Invariants: every trainer deals the same minibatches from the same batch and seed, and what all of them compute of a
minibatch adds up to its gradient and metrics. A helper keeps nothing but the batch that it was sent last. A batch
travels beside `ShareBatch` as safetensors, weights and answers beside the others as float32.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray
from safetensors import numpy as safetensors

from ludus.config import RunConfig, TrainConfig
from ludus.policies.value_scale import trained
from ludus.runtime import Channel, Stop
from ludus.train.batches import Batch, pad
from ludus.train.jax_learner import JaxLearner, key_of
from ludus.train.jax_steps import Pass, Share
from ludus.train.learners import make_network_learner
from ludus.train.minibatches import Deck, deal, make_deck, round_keys, shuffle
from ludus.train.optimizers import learning_rate

Columns = Mapping[str, jax.Array]


class ShareBatch(msgspec.Struct, tag="share_batch", kw_only=True):
    """The batch in the blob is what the next minibatches are dealt from."""

    seed: int
    progress: float
    rows: int
    """Rows to pad it to."""


class ShareMinibatch(msgspec.Struct, tag="share_minibatch", kw_only=True):
    """Compute your share of this minibatch with the weights in the blob."""

    epoch: int
    number: int


class Ready(msgspec.Struct, tag="ready", kw_only=True):
    """A helper has begun to listen."""


class Shared(msgspec.Struct, tag="shared", kw_only=True):
    """A share is computed: gradient and metrics are in the blob."""


ToHelper = ShareBatch | ShareMinibatch | Stop
FromHelper = Ready | Shared


class _Loaded(NamedTuple):
    """The batch that minibatches are dealt from."""

    batch: Columns
    deck: Deck
    keys: NDArray[np.uint32]
    progress: np.float32


class JaxShare:
    """Compiled once for each size of a batch."""

    _loaded: _Loaded

    def __init__(self, learner: JaxLearner, train: TrainConfig, *, rank: int, size: int) -> None:
        self._learner = learner
        self._train = train
        self._rank, self._size = jnp.int32(rank), size
        _, self._unravel = ravel_pytree(trained(learner.network.init(0)))
        self._prepare = jax.jit(self._prepared)
        self._shuffle = jax.jit(lambda deck, keys, source: shuffle(deck, keys, learner.minibatch, source))
        self._compute = jax.jit(self._answer)
        self._epoch = -1

    def load(self, batch: Batch, seed: int, progress: float) -> None:
        """Take the batch that the next minibatches are dealt from."""
        keys = np.asarray(round_keys(key_of(seed), self._train.epochs))
        prepared, deck = self._prepare(batch)
        self._loaded = _Loaded(prepared, deck, keys, np.float32(progress))
        self._epoch = -1

    @property
    def batch(self) -> Columns:
        """The batch, as it is dealt."""
        return self._loaded.batch

    @property
    def minibatches(self) -> int:
        """Minibatches of an epoch."""
        return int(self._loaded.deck.minibatches)

    def compute(self, vector: NDArray[np.float32], *, epoch: int, number: int) -> jax.Array:
        """The share of one minibatch, with these weights: its gradient, then its metrics by name, in one vector."""
        batch, deck, keys, progress = self._loaded
        if epoch != self._epoch:
            self._order = self._shuffle(deck, keys[epoch], batch.get("source"))
            self._epoch = epoch
        answer: jax.Array = self._compute(vector, batch, deck, self._order, np.int32(number), self._rank, progress)
        return answer

    def constants(self, progress: jax.Array) -> Pass:
        """What stays the same during one update."""
        return Pass(self._unravel, learning_rate(self._train.optimizer, progress), progress)

    def _prepared(self, batch: Columns) -> tuple[Columns, Deck]:
        batch = self._learner.prepare(batch)
        return batch, make_deck(batch["weight"], self._learner.minibatch)

    def _answer(
        self,
        vector: jax.Array,
        batch: Columns,
        deck: Deck,
        order: jax.Array,
        number: jax.Array,
        rank: jax.Array,
        progress: jax.Array,
    ) -> jax.Array:
        part = deal(batch, deck, order, number, self._learner.minibatch)
        share = Share(rank, self._size)
        gradient, metrics = self._learner.steps.gradient(vector, part, self.constants(progress), share)
        return jnp.concatenate([gradient, jnp.stack([metrics[name] for name in sorted(metrics)])])


def respond(share: JaxShare, message: object, blob: memoryview) -> bytes | None:
    """Do what trainer 0 asks for; what it is to be answered, if anything."""
    if isinstance(message, ShareBatch):
        share.load(pad(safetensors.load(bytes(blob)), message.rows), message.seed, message.progress)
    elif isinstance(message, ShareMinibatch):
        answer = share.compute(np.frombuffer(blob, np.float32), epoch=message.epoch, number=message.number)
        return np.asarray(answer).tobytes()
    return None


def follow(
    config: RunConfig,
    shape: Mapping[str, Any],
    *,
    rank: int,
    sock: socket.socket,
    tell: Callable[[bool], None] = lambda is_busy: None,
) -> None:
    """A helper's life: compute what trainer 0 asks for until it says stop; `tell` hears whether there is work."""
    channel: Channel[object] = Channel(sock, ToHelper)
    share = JaxShare(make_network_learner(config, shape), config.train, rank=rank, size=config.train.trainers)
    channel.send(Ready())
    while True:
        tell(False)
        for message, blob in channel.wait(None):
            if isinstance(message, Stop):
                return
            tell(True)
            answer = respond(share, message, blob)
            if answer is not None:
                channel.send(Shared(), answer)
                channel.drain(config.runtime.stall_s)
