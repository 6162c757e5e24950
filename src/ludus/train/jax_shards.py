"""Several devices as one learner (local SGD): each trains on its own games, and their weights are averaged every epoch.

A sum for every minibatch costs as much as the minibatch's gradient on a processor's cores, so there is one for every
epoch. Between two of them each device takes optimizer steps on its share of every minibatch. Adam and RMSProp divide a
gradient by its size, noise included, and a share of the rows has more noise: without a higher rate two shards would
learn more slowly than one. With it, the mean of their steps has the drift and the noise of a step on all rows.

Invariant: after `meet` and `agree` all devices hold the same bits. Every device calls them equally often, at the same
places of one compiled program.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ludus.config import TrainConfig
from ludus.train.jax_steps import EpochState, Metrics
from ludus.train.learner_state import LearnerState

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
    """Of real numbers the mean over the devices, of whole numbers the largest."""
    return jax.tree.map(_agreed, _gathered(tree))


def add_up(tree: Any) -> Any:
    """Sums over the devices."""
    return jax.tree.map(lambda leaf: leaf.sum(axis=0), _gathered(tree))


def meet(epochs: EpochState) -> EpochState:
    """Average weights and optimizer; when one device has stopped for its KL, all of them stop."""
    params, optimizer, skipped, stopped = agree(
        (epochs.params, epochs.optimizer, epochs.skipped_in_a_row, epochs.stopped.astype(jnp.int32))
    )
    return epochs._replace(params=params, optimizer=optimizer, skipped_in_a_row=skipped, stopped=stopped > 0)


def conclude(state: LearnerState, metrics: Metrics) -> tuple[LearnerState, Metrics]:
    """What all devices come to at the end of an update: how many steps were taken, and their metrics as one."""
    steps, agreed = agree((state.steps, metrics))
    total = {name: agreed[name] * lax.axis_size(AXIS) for name in _ADDED_UP}
    return state._replace(steps=steps), {**agreed, **total}


def _gathered(tree: Any) -> Any:
    """Every leaf of all devices, `[shards, ...]`, by one transfer: each waits for the slowest device."""
    leaves, structure = jax.tree.flatten(tree)
    words = [lax.bitcast_convert_type(leaf, jnp.uint32).ravel() for leaf in leaves]
    rows = lax.all_gather(jnp.concatenate(words), AXIS)
    ends = list(itertools.accumulate(len(word) for word in words))
    parts = [rows[:, end - len(word) : end] for end, word in zip(ends, words, strict=True)]
    return jax.tree.unflatten(
        structure,
        [
            lax.bitcast_convert_type(part.reshape(len(rows), *leaf.shape), leaf.dtype)
            for part, leaf in zip(parts, leaves, strict=True)
        ],
    )


def _agreed(leaf: jax.Array) -> jax.Array:
    is_real = jnp.issubdtype(leaf.dtype, jnp.floating)
    return leaf.mean(axis=0) if is_real else leaf.max(axis=0)
