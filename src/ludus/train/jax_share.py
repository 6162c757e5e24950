"""One trainer's share of every minibatch of a batch, for several trainers of one network.

Invariant: every trainer deals the same minibatches from the same batch and seed, and what all of them compute of a
minibatch adds up to its gradient and metrics.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from ludus.config import TrainConfig
from ludus.policies.value_scale import trained
from ludus.train.batches import Batch
from ludus.train.jax_gradient import Pass, Share
from ludus.train.jax_learner import JaxLearner, key_of
from ludus.train.minibatches import Deck, deal, make_deck, shuffle
from ludus.train.optimizer import learning_rate
from ludus.train.shuffle import round_keys

Columns = Mapping[str, jax.Array]


class JaxShare:
    """Compiled once for each size of a batch."""

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
        self.batch, self._deck = self._prepare(batch)
        self._keys = np.asarray(round_keys(key_of(seed), self._train.epochs))
        self._progress = np.float32(progress)
        self._epoch = -1

    @property
    def minibatches(self) -> int:
        """Minibatches of an epoch."""
        return int(self._deck.minibatches)

    def compute(self, vector: NDArray[np.float32], *, epoch: int, number: int) -> jax.Array:
        """The share of one minibatch, with these weights: its gradient, then its metrics by name, in one vector."""
        if epoch != self._epoch:
            self._order = self._shuffle(self._deck, self._keys[epoch], self.batch.get("source"))
            self._epoch = epoch
        answer: jax.Array = self._compute(
            vector, self.batch, self._deck, self._order, np.int32(number), self._rank, self._progress
        )
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
        gradient, metrics = self._learner.gradient(vector, part, self.constants(progress), share)
        return jnp.concatenate([gradient, jnp.stack([metrics[name] for name in sorted(metrics)])])
