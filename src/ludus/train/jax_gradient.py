"""Loss and gradient of a minibatch in JAX: of all of it, or of the share that falls to one of several trainers.

Invariant: whatever is averaged or normalised is so over the whole minibatch, so the gradients and metrics of its shares
add up to those of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ludus.config import TrainConfig
from ludus.policies.value_scale import scale_of
from ludus.train.arrays import masked_log_softmax, take_last
from ludus.train.bptt_chunks import RowMaker
from ludus.train.learner_metrics import Metrics
from ludus.train.losses import LossInputs, entropy, kl
from ludus.train.minibatches import Columns, normalised, own_weight
from ludus.train.objective import Objective, Scales, element_count


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


class MinibatchGradient:
    """Gradient and metrics by a resolved `TrainConfig`. Pure and traceable."""

    def __init__(self, rows: RowMaker, train: TrainConfig, objective: Objective) -> None:
        self._rows = rows
        self._objective = objective
        self._pieces = train.accumulate
        self._normalises = train.algorithm.advantage is None or train.algorithm.advantage.normalise

    def __call__(
        self, vector: jax.Array, part: Columns, constants: Pass, share: Share | None = None
    ) -> tuple[jax.Array, Metrics]:
        """Of one minibatch or a share of it, in as many pieces as `accumulate` says."""
        if self._normalises:
            part = {**part, "advantage": normalised(part["advantage"], own_weight(part))}
        scales = self._objective.scales(part["weight"], part.get("source"))
        count = element_count(own_weight(part))
        mine = part if share is None else share_of(part, share, self._pieces)

        def of_piece(piece: Columns) -> tuple[jax.Array, Metrics]:
            gradient, metrics = jax.grad(self._loss, has_aux=True)(vector, piece, constants, scales, count)
            return gradient, metrics

        if self._pieces == 1:
            return of_piece(mine)
        stacked = {name: x.reshape((self._pieces, -1, *x.shape[1:])) for name, x in mine.items()}
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
        normalise = scale.normalise if scale is not None else _as_it_is
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
        loss, metrics = self._objective(inputs, constants.progress, scales)
        own, total = own_weight(piece), self._objective.aggregation.total
        metrics["entropy"] = total(inputs.entropy, own) / count
        if "approx_kl" not in metrics:
            metrics["approx_kl"] = total(kl(inputs.old_logp, inputs.logp).loss, own) / count
        return loss, {**metrics, "loss": loss}


def _as_it_is(value: jax.Array) -> jax.Array:
    return value


def share_of(part: Columns, share: Share, pieces: int = 1) -> Columns:
    """The rows of a share, filled up by rows of weight 0 to a multiple of `pieces` that is the same for every share."""
    extra = -len(part["weight"]) % (share.size * pieces)

    def cut(column: jax.Array) -> jax.Array:
        filled = jnp.pad(column, [(0, extra), *[(0, 0)] * (column.ndim - 1)])
        dealt = filled.reshape((-1, share.size, *column.shape[1:]))
        mine: jax.Array = lax.dynamic_index_in_dim(dealt, share.rank, axis=1, keepdims=False)
        return mine

    return {name: cut(column) for name, column in part.items()}
