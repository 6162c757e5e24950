"""Stochastic weight averaging: a running mean of the weights after each update (`train.swa`).

In a checkpoint the mean is in the part `optimizer` as `swa.<weight>`; with `publish` it is in the part `weights`, which
is what gets published, and the newest weights are in `optimizer` as `raw.<weight>`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from numpy.typing import NDArray

from ludus.config import SwaConfig
from ludus.train.learners import MEAN, RAW, Parts


class Average(NamedTuple):
    """A mean of weights, and the updates that there were. A pytree."""

    mean: dict[str, jax.Array]
    updates: jax.Array
    """int32."""


def start_average(params: Mapping[str, jax.Array]) -> Average:
    """Before the first update. Buffers of its own, so that a caller may donate the state."""
    return Average({name: jnp.array(weight) for name, weight in params.items()}, jnp.zeros((), jnp.int32))


def averaged(config: SwaConfig, average: Average, params: Mapping[str, jax.Array]) -> Average:
    """The mean after another update. Traceable."""
    updates = average.updates + 1
    count = jnp.clip(updates // config.every, 1, config.most).astype(jnp.float32)
    share = jnp.where(updates % config.every == 0, 1.0 / count, 0.0)
    mean = {name: old + share * (params[name] - old) for name, old in average.mean.items()}
    return Average(mean, updates)


def published(parts: Parts) -> dict[str, dict[str, NDArray[Any]]]:
    """A state's tensors with the mean in the place of the newest weights."""
    weights, optimizer = parts["weights"], parts["optimizer"]
    means = {name: optimizer[f"{MEAN}{name}"] for name in weights}
    rest = {name: tensor for name, tensor in optimizer.items() if name.removeprefix(MEAN) not in weights}
    return {"weights": means, "optimizer": rest | {f"{RAW}{name}": tensor for name, tensor in weights.items()}}


def unpublished(parts: Parts) -> Parts:
    """The inverse of `published`; tensors that it did not make are given back as they are."""
    weights, optimizer = parts["weights"], parts["optimizer"]
    if not all(f"{RAW}{name}" in optimizer for name in weights):
        return parts
    newest = {name: optimizer[f"{RAW}{name}"] for name in weights}
    rest = {name: tensor for name, tensor in optimizer.items() if name.removeprefix(RAW) not in weights}
    return {"weights": newest, "optimizer": rest | {f"{MEAN}{name}": tensor for name, tensor in weights.items()}}
