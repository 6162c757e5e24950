"""One optimizer step after another in JAX: a minibatch's gradient, the step, and what an update reports.

Invariants:

- Whatever is averaged or normalised is so over the whole minibatch, so the gradients and metrics of its shares add up
  to those of the whole.
- A minibatch whose loss or gradient is not finite leaves weights and optimizer as they were, and is counted.
- Every metric is finite, whatever the batch held, so metrics are always valid JSON.

Weights and gradients are one vector, which spares XLA a kernel per tensor. A conditional skips bad steps: a select over
the weights is compiled to a branch per element and takes nine times as long as Adam itself. The optimizer computes a
direction, which the learning rate scales: that depends on the share of the run that is done, not on a count of steps,
so a resumed or re-batched run keeps its schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from ludus.config import TrainConfig
from ludus.policies.value_scale import scale_of
from ludus.train.aggregation import at_least_something
from ludus.train.arrays import masked_log_softmax, take_last
from ludus.train.batches import Decisions
from ludus.train.health import NOT_FINITE
from ludus.train.learner_state import LearnerState
from ludus.train.loss_inputs import LossInputs
from ludus.train.losses import entropy
from ludus.train.minibatches import Columns, normalised, own_weight
from ludus.train.objective import Objective, Scales
from ludus.train.optimizers import build_optimizer, decay_mask
from ludus.train.swa import averaged

Metrics = dict[str, jax.Array]

_TINY = 1e-8


class Pass(NamedTuple):
    """What stays the same during one update."""

    unravel: Callable[[jax.Array], dict[str, jax.Array]]
    """From the vector of all weights that are trained to weights by name."""
    rate: jax.Array
    progress: jax.Array
    untrained: Mapping[str, jax.Array] = {}
    """The scale of values, where there is one."""

    def params(self, vector: jax.Array) -> dict[str, jax.Array]:
        """All weights, from those that are trained."""
        return {**self.untrained, **self.unravel(vector)}


class Share(NamedTuple):
    """Which rows of a minibatch: every `size`-th, beginning with `rank`."""

    rank: jax.Array
    size: int


class EpochState(NamedTuple):
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
    flags: Metrics
    """For every metric: 1 if it was not finite in the newest minibatch that was skipped."""


def start_epochs(vector: jax.Array, state: LearnerState, metrics: Iterable[str]) -> EpochState:
    """Before the first minibatch; `metrics` are the names of a minibatch's."""
    return EpochState(
        params=vector,
        optimizer=state.optimizer,
        sums={name: jnp.zeros(()) for name in (*metrics, "grad_norm")},
        taken=jnp.int32(0),
        skipped=jnp.int32(0),
        skipped_in_a_row=state.skipped,
        stopped=jnp.bool_(False),
        flags={name: jnp.zeros(()) for name in (*metrics, "grad_norm")},
    )


class Steps:
    """One optimizer step after the other, by a resolved `TrainConfig`. Pure and traceable."""

    def __init__(self, rows: Decisions, train: TrainConfig, objective: Objective) -> None:
        self._rows, self._train, self._objective = rows, train, objective
        self.optimizer = build_optimizer(train.optimizer, decay_mask(train.optimizer, rows.shapes()))

    def gradient(
        self, vector: jax.Array, part: Columns, constants: Pass, share: Share | None = None
    ) -> tuple[jax.Array, Metrics]:
        """Gradient and metrics of one minibatch or a share of it, in as many pieces as `accumulate` says."""
        if self._train.algorithm.advantage is None or self._train.algorithm.advantage.normalise:
            part = {**part, "advantage": normalised(part["advantage"], own_weight(part))}
        scales = self._objective.scales(part["weight"], part.get("source"))
        count, pieces = at_least_something(jnp.sum(own_weight(part))), self._train.accumulate
        mine = part if share is None else share_of(part, share, pieces)

        def of_piece(piece: Columns) -> tuple[jax.Array, Metrics]:
            gradient, metrics = jax.grad(self._loss, has_aux=True)(vector, piece, constants, scales, count)
            return gradient, metrics

        if pieces == 1:
            return of_piece(mine)
        stacked = {name: x.reshape((pieces, -1, *x.shape[1:])) for name, x in mine.items()}
        shapes = jax.eval_shape(of_piece, {name: x[0] for name, x in stacked.items()})
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        total: tuple[jax.Array, Metrics]
        total, _ = lax.scan(lambda sums, piece: (jax.tree.map(jnp.add, sums, of_piece(piece)), None), zeros, stacked)
        return total

    def _loss(
        self, vector: jax.Array, piece: Columns, constants: Pass, scales: Scales, count: jax.Array
    ) -> tuple[jax.Array, Metrics]:
        params = constants.params(vector)
        logits, value = self._rows.apply(params, piece)
        scale = scale_of(params)
        normalise = scale.normalise if scale is not None else lambda value: value
        log_probs = masked_log_softmax(logits, piece.get("legal"))
        inputs = LossInputs(
            mask=piece["weight"],
            logp=take_last(log_probs, piece["action"]),
            old_logp=piece["logp"],
            advantage=piece["advantage"],
            value=normalise(value),
            old_value=normalise(piece["value"]),
            target=normalise(piece["target"]),
            entropy=entropy(log_probs),
            source=piece.get("source"),
        )
        return self._objective.measure(inputs, constants.progress, scales, count)

    def take(self, epochs: EpochState, gradient: jax.Array, metrics: Metrics, constants: Pass) -> EpochState:
        """One optimizer step by a whole minibatch's gradient, or none."""
        norm = jnp.sqrt(jnp.sum(gradient * gradient))
        metrics = {**metrics, "grad_norm": norm}
        kl_stop, limit = self._train.algorithm.kl_stop, self._train.optimizer.max_grad_norm
        is_finite = jnp.isfinite(metrics["loss"]) & jnp.isfinite(norm)
        stopped = is_finite & (metrics["approx_kl"] > (jnp.inf if kl_stop is None else kl_stop))

        def take() -> EpochState:
            scaled = gradient if limit is None else gradient * (limit / jnp.maximum(norm, limit))
            direction, optimizer = self.optimizer.update(scaled, epochs.optimizer, epochs.params)
            return epochs._replace(
                params=epochs.params - constants.rate * direction,
                optimizer=optimizer,
                sums={name: epochs.sums[name] + metrics[name] for name in epochs.sums},
                taken=epochs.taken + 1,
                skipped_in_a_row=jnp.int32(0),
            )

        def skip() -> EpochState:
            bad = (~is_finite).astype(jnp.int32)
            fresh = {name: (~jnp.isfinite(metrics[name])).astype(jnp.float32) for name in epochs.flags}
            return epochs._replace(
                skipped=epochs.skipped + bad,
                skipped_in_a_row=epochs.skipped_in_a_row + bad,
                stopped=stopped,
                flags={name: jnp.where(is_finite, epochs.flags[name], flag) for name, flag in fresh.items()},
            )

        after: EpochState = lax.cond(is_finite & ~stopped, take, skip)
        return after

    def conclude(
        self, epochs: EpochState, state: LearnerState, batch: Mapping[str, jax.Array], constants: Pass
    ) -> tuple[LearnerState, Metrics]:
        """The state after epochs that began at `state`, and what is reported of the update."""
        params, average = constants.params(epochs.params), state.average
        if self._train.swa is not None and average is not None:
            average = averaged(self._train.swa, average, params)
        after = LearnerState(params, epochs.optimizer, state.steps + epochs.taken, epochs.skipped_in_a_row, average)
        counts = {
            "rows": jnp.sum(batch["weight"] > 0),
            "optimizer_steps": epochs.taken,
            "skipped": epochs.skipped,
            "skipped_in_a_row": epochs.skipped_in_a_row,
            "kl_stopped": epochs.stopped,
            "learning_rate": constants.rate,
        }
        counts = {name: count.astype(jnp.float32) for name, count in counts.items()}
        counts |= self._objective.schedule(constants.progress)
        own = {**batch, "weight": own_weight(batch)}
        taken = jnp.maximum(epochs.taken, 1).astype(jnp.float32)
        means = {name: total / taken for name, total in epochs.sums.items()}
        flags = {f"{NOT_FINITE}{name}": flag for name, flag in epochs.flags.items()}
        return after, {**means, **_batch_metrics(own), **counts, **flags}


def share_of(part: Columns, share: Share, pieces: int) -> Columns:
    """The rows of a share, filled up by rows of weight 0 to a multiple of `pieces` that is the same for every share."""
    extra = -len(part["weight"]) % (share.size * pieces)

    def cut(column: jax.Array) -> jax.Array:
        filled = jnp.pad(column, [(0, extra), *[(0, 0)] * (column.ndim - 1)])
        dealt = filled.reshape((-1, share.size, *column.shape[1:]))
        mine: jax.Array = lax.dynamic_index_in_dim(dealt, share.rank, axis=1, keepdims=False)
        return mine

    return {name: cut(column) for name, column in part.items()}


def _batch_metrics(batch: Mapping[str, jax.Array]) -> Metrics:
    """Means of value and target, and how much of the targets' variance the old values explained (1 is all)."""
    weight, value, target = batch["weight"], batch["value"], batch["target"]
    total = jnp.maximum(jnp.sum(weight), _TINY)

    def mean(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.where(weight > 0, x, 0.0) * weight) / total

    def variance(x: jax.Array) -> jax.Array:
        return mean((x - mean(x)) ** 2)

    spread = variance(target)
    explained = jnp.where(spread > _TINY, 1.0 - variance(target - value) / jnp.maximum(spread, _TINY), 0.0)
    figures = {"explained_variance": explained, "value_mean": mean(value), "target_mean": mean(target)}
    return {name: jnp.where(jnp.isfinite(x), x, 0.0) for name, x in figures.items()}
