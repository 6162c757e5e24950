"""What a learner keeps between updates, and its form on disk: NumPy arrays by name, bit-exact both ways.

The optimizer works on all trained weights as one vector (the scale of values is not trained); on disk its moments carry
the names of the weights they belong to, as in `0.mu.torso.0.kernel`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from ludus.policies.value_scale import trained
from ludus.train.learners import MEAN, check_tensors
from ludus.train.swa import Average

Tensors = dict[str, NDArray[Any]]


class LearnerState(NamedTuple):
    """A pytree; the same on the host and inside a compiled program."""

    params: dict[str, jax.Array]
    optimizer: optax.OptState
    steps: jax.Array
    """int32: optimizer steps taken."""
    skipped: jax.Array
    """int32: optimizer steps skipped in a row, up to now."""
    average: Average | None = None
    """With `train.swa`: the running mean of the weights."""


def state_tensors(state: LearnerState) -> dict[str, Tensors]:
    """The state in two parts, `weights` and `optimizer`."""
    weights = {name: np.asarray(x) for name, x in state.params.items()}
    cut = _Cut(trained(weights))
    optimizer: Tensors = {"steps": np.asarray(state.steps), "skipped": np.asarray(state.skipped)}
    for name, leaf in _leaves(state.optimizer):
        if leaf.shape == cut.shape:
            optimizer |= {f"{name}.{weight}": part for weight, part in cut.parts(np.asarray(leaf))}
        else:
            optimizer[name] = np.asarray(leaf)
    if state.average is not None:
        optimizer |= {f"{MEAN}{name}": np.asarray(x) for name, x in state.average.mean.items()}
        optimizer["swa_updates"] = np.asarray(state.average.updates)
    return {"weights": weights, "optimizer": optimizer}


class _Cut:
    """Where each weight is in the vector that `ravel_pytree` makes of all. Cutting by jax takes ten times as long."""

    def __init__(self, weights: Mapping[str, NDArray[Any]]) -> None:
        self._weights = {name: weights[name] for name in sorted(weights)}
        self._ends = np.cumsum([0, *(x.size for x in self._weights.values())]).tolist()
        self.shape = (self._ends[-1],)

    def parts(self, vector: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
        """Each weight's part of a vector."""
        for (name, weight), (start, end) in zip(self._weights.items(), pairwise(self._ends), strict=True):
            yield name, vector[start:end].reshape(weight.shape).astype(weight.dtype, copy=False)


def state_from_tensors(tensors: Mapping[str, Mapping[str, NDArray[Any]]], template: LearnerState) -> LearnerState:
    """The state that `state_tensors` wrote. Raises CorruptRecord if names, shapes or types are not the template's."""
    expected = state_tensors(template)
    for part in ("weights", "optimizer"):
        check_tensors(part, {name: (x.shape, x.dtype) for name, x in expected[part].items()}, tensors[part])
    params = {name: jnp.asarray(tensors["weights"][name]) for name in template.params}
    saved = tensors["optimizer"]
    size = ravel_pytree(trained(template.params))[0].shape
    leaves = [
        ravel_pytree({weight: jnp.asarray(saved[f"{name}.{weight}"]) for weight in trained(params)})[0]
        if leaf.shape == size
        else jnp.asarray(saved[name])
        for name, leaf in _leaves(template.optimizer)
    ]
    optimizer = jax.tree.unflatten(jax.tree.structure(template.optimizer), leaves)
    average = None
    if template.average is not None:
        mean = {name: jnp.asarray(saved[f"{MEAN}{name}"]) for name in template.average.mean}
        average = Average(mean, jnp.asarray(saved["swa_updates"]))
    return LearnerState(params, optimizer, jnp.asarray(saved["steps"]), jnp.asarray(saved["skipped"]), average)


def _leaves(optimizer: optax.OptState) -> Iterator[tuple[str, jax.Array]]:
    for path, leaf in jax.tree_util.tree_leaves_with_path(optimizer):
        yield jax.tree_util.keystr(path, simple=True, separator="."), leaf
