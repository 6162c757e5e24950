"""Several trainer processes as one learner of a network: each computes a share of every minibatch.

The process that holds a `ParallelJaxLearner` is trainer 0. It sends the weights to the others (`network_helpers.py`),
adds their shares to its own in the order of their ranks, takes the optimizer's step and keeps the state. Helpers keep
nothing but the batch, so all trainers have the same weights at every minibatch.

Invariants: the result is that of one trainer, to rounding, and the same bits whenever it is computed again. When a
helper is lost this process ends too, so that whoever supervises it replaces all of them together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from ludus.config import RunConfig, TrainConfig
from ludus.records import Experiences
from ludus.train.jax_epochs import Walk
from ludus.train.jax_share import JaxShare
from ludus.train.learner_metrics import Metrics
from ludus.train.learner_state import LearnerState, Tensors
from ludus.train.learners import make_network_learner
from ludus.train.network_helpers import NetworkHelpers, pack_batch
from ludus.train.parallel_messages import ShareBatch, ShareMinibatch

Floats = NDArray[np.float32]


class Helpers(Protocol):
    """The other trainers."""

    def await_ready(self) -> None:
        """Called once, before anything is said."""
        ...

    def say(self, message: msgspec.Struct, blob: bytes) -> None:
        """Tell all of them something. Called with every batch, then with every minibatch of it."""
        ...

    def answers(self) -> Iterator[Floats]:
        """What each has computed of the minibatch that was named last, in the order of their ranks."""
        ...

    def together(self) -> AbstractContextManager[None]:
        """Around everything that is said and answered for a batch."""
        ...

    def close(self) -> None:
        """No more batches."""
        ...


class ParallelJaxLearner:
    """The same face as `JaxLearner`, with `train.trainers` processes behind it."""

    def __init__(self, config: RunConfig, shape: Mapping[str, Any], helpers: Helpers | None = None) -> None:
        """`helpers` are the other trainers; processes, unless given."""
        self.helpers = NetworkHelpers(config, shape) if helpers is None else helpers
        self._train: TrainConfig = config.train
        self._learner = make_network_learner(config, shape)
        self._share = JaxShare(self._learner, config.train, rank=0, size=config.train.trainers)
        self._begin, self._take, self._conclude = (jax.jit(x) for x in (self._started, self._taken, self._concluded))
        self.helpers.await_ready()

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
        with self.helpers.together():
            self.helpers.say(ShareBatch(seed=seed, progress=progress, rows=len(batch["weight"])), pack_batch(batch))
            self._share.load(batch, seed, progress)
            walk = self._walk(self._begin(state, self._share.batch, np.float32(progress)), np.float32(progress))
        state, metrics = self._conclude(walk, state, self._share.batch, np.float32(progress))
        floats = {name: float(value) for name, value in jax.device_get(metrics).items()}
        self._learner.check_health(floats)
        return state, floats

    def close(self) -> None:
        """End the helpers."""
        self.helpers.close()

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
        self.helpers.say(ShareMinibatch(epoch=epoch, number=number), vector.tobytes())
        total = np.array(self._share.compute(vector, epoch=epoch, number=number))
        for answer in self.helpers.answers():
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
