"""Several devices as one learner (local SGD): each trains on its own games, and their weights are averaged every epoch.

A sum for every minibatch costs as much as the minibatch's gradient on a processor's cores, so there is one for every
epoch. Between two of them each device takes optimizer steps on its share of every minibatch. Adam and RMSProp divide a
gradient by its size, noise included, and a share of the rows has more noise: without a higher rate two shards would
learn more slowly than one. With it, the mean of their steps has the drift and the noise of a step on all rows.

Invariant: after `meet` and `agree` all devices hold the same bits. Every device calls them equally often, at the same
places of one compiled program.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree

from ludus.config import TrainConfig
from ludus.train.jax_epochs import Walk
from ludus.train.learner_metrics import Metrics

AXIS = "shards"
"""The axis of the mesh of devices."""
_ADDED_UP = ("rows", "skipped")
"""Metrics that count; of the others the mean is reported."""


def share_of(train: TrainConfig) -> TrainConfig:
    """What one of the shards trains with: its part of a minibatch, and the learning rate that goes with it."""
    rate = 1.0 if train.optimizer.kind == "sgd" else math.sqrt(train.shards)
    optimizer = train.optimizer.model_copy(update={"learning_rate": train.optimizer.learning_rate * rate})
    return train.model_copy(update={"minibatch": train.minibatch // train.shards, "optimizer": optimizer})


def agree(tree: Any) -> Any:
    """Real numbers averaged over the devices as one vector, of whole numbers and flags the largest."""
    leaves, structure = jax.tree.flatten(tree)
    is_real = [bool(jnp.issubdtype(leaf.dtype, jnp.floating)) for leaf in leaves]
    vector, unravel = ravel_pytree([leaf for leaf, real in zip(leaves, is_real, strict=True) if real])
    averaged = iter(unravel(lax.pmean(vector, AXIS)))  # type: ignore[no-untyped-call]
    agreed = [
        next(averaged) if real else lax.pmax(leaf, AXIS)  # type: ignore[no-untyped-call]
        for leaf, real in zip(leaves, is_real, strict=True)
    ]
    return jax.tree.unflatten(structure, agreed)


def meet(walk: Walk) -> Walk:
    """Average weights and optimizer; when one device has stopped for its KL, all of them stop."""
    params, optimizer, skipped, stopped = agree(
        (walk.params, walk.optimizer, walk.skipped_in_a_row, walk.stopped.astype(jnp.int32))
    )
    return walk._replace(params=params, optimizer=optimizer, skipped_in_a_row=skipped, stopped=stopped > 0)


def add_up(tree: Any) -> Any:
    """Sums over the devices."""
    return lax.psum(tree, AXIS)  # type: ignore[no-untyped-call]


def metrics_of_all(metrics: Metrics) -> Metrics:
    """What is reported of an update: the metrics of all devices as one."""
    agreed: Metrics = agree(metrics)
    return {name: value * lax.axis_size(AXIS) if name in _ADDED_UP else value for name, value in agreed.items()}
