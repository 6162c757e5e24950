"""The walk through the minibatches of one update in JAX: what it carries, one step of it, and what comes out.

Invariant: a minibatch whose loss or gradient is not finite leaves weights and optimizer as they were, and is counted.
Weights and gradients are one vector, which spares XLA a kernel per tensor. A conditional skips bad steps: a select over
the weights is compiled to a branch per element and takes nine times as long as Adam itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from ludus.config import TrainConfig
from ludus.train.jax_gradient import Pass
from ludus.train.learner_metrics import Metrics, as_floats, batch_metrics, means
from ludus.train.learner_state import LearnerState
from ludus.train.minibatches import own_weight
from ludus.train.objective import Objective


class Walk(NamedTuple):
    """What the minibatch loops carry."""

    params: jax.Array
    optimizer: optax.OptState
    sums: Metrics
    """Of every metric, over the steps that were taken."""
    taken: jax.Array
    skipped: jax.Array
    skipped_in_a_row: jax.Array
    stopped: jax.Array
    """Whether the KL went over its bound."""


def start_walk(vector: jax.Array, state: LearnerState, metrics: Iterable[str]) -> Walk:
    """Before the first minibatch; `metrics` are the names of a minibatch's."""
    return Walk(
        params=vector,
        optimizer=state.optimizer,
        sums={name: jnp.zeros(()) for name in (*metrics, "grad_norm")},
        taken=jnp.int32(0),
        skipped=jnp.int32(0),
        skipped_in_a_row=state.skipped,
        stopped=jnp.bool_(False),
    )


class Steps:
    """One optimizer step after the other, by a resolved `TrainConfig`. Pure and traceable."""

    def __init__(self, train: TrainConfig, objective: Objective, optimizer: optax.GradientTransformation) -> None:
        self._train = train
        self._objective = objective
        self._optimizer = optimizer

    def take(self, walk: Walk, gradient: jax.Array, metrics: Metrics, constants: Pass) -> Walk:
        """One optimizer step by a whole minibatch's gradient, or none."""
        norm = jnp.sqrt(jnp.sum(gradient * gradient))
        metrics = {**metrics, "grad_norm": norm}
        kl_stop, limit = self._train.algorithm.kl_stop, self._train.optimizer.max_grad_norm
        is_finite = jnp.isfinite(metrics["loss"]) & jnp.isfinite(norm)
        stopped = is_finite & (metrics["approx_kl"] > (jnp.inf if kl_stop is None else kl_stop))

        def take() -> Walk:
            scaled = gradient if limit is None else gradient * (limit / jnp.maximum(norm, limit))
            direction, optimizer = self._optimizer.update(scaled, walk.optimizer, walk.params)
            return walk._replace(
                params=walk.params - constants.rate * direction,
                optimizer=optimizer,
                sums={name: walk.sums[name] + metrics[name] for name in walk.sums},
                taken=walk.taken + 1,
                skipped_in_a_row=jnp.int32(0),
            )

        def skip() -> Walk:
            bad = (~is_finite).astype(jnp.int32)
            return walk._replace(
                skipped=walk.skipped + bad, skipped_in_a_row=walk.skipped_in_a_row + bad, stopped=stopped
            )

        after: Walk = lax.cond(is_finite & ~stopped, take, skip)
        return after

    def conclude(
        self, walk: Walk, state: LearnerState, batch: Mapping[str, jax.Array], constants: Pass
    ) -> tuple[LearnerState, Metrics]:
        """The state after a walk that began at `state`, and what is reported of the update."""
        after = LearnerState(
            constants.params(walk.params), walk.optimizer, state.steps + walk.taken, walk.skipped_in_a_row
        )
        counts = as_floats(
            rows=jnp.sum(batch["weight"] > 0),
            optimizer_steps=walk.taken,
            skipped=walk.skipped,
            skipped_in_a_row=walk.skipped_in_a_row,
            kl_stopped=walk.stopped,
            learning_rate=constants.rate,
        )
        counts |= self._objective.schedule(constants.progress)
        own = {**batch, "weight": own_weight(batch)}
        return after, {**means(walk.sums, walk.taken), **batch_metrics(own), **counts}
