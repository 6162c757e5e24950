"""Network policies at play: observations in, actions with log-probabilities and values out.

Invariant: what a row gets does not depend on its neighbours. Every call has the same shape (`CHUNK` rows, padded), so
XLA runs the same instructions for a row whichever games it is batched with; that makes split runs repeatable.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ludus.policies import PolicyShape, PolicyStore
from ludus.records import PolicyRef

CHUNK = 64


def choose(logits: jax.Array, legal: jax.Array, uniform: jax.Array, greedy: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Pick an action per row by inverting the distribution at `uniform`, or the likeliest if `greedy`.

    Args:
        logits: `[B, A]`.
        legal: `[B, A]`, at least one True per row.
        uniform: `[B]` in [0, 1).
        greedy: `[B]`.
    """
    logp = jax.nn.log_softmax(jnp.where(legal, logits, -1e9))
    cumulative = jnp.cumsum(jnp.where(legal, jnp.exp(logp), 0.0), axis=-1)
    # The cumulative sum rises at legal actions only, so the first crossing is legal.
    sampled = jnp.argmax(cumulative > uniform[:, None] * cumulative[:, -1:], axis=-1)
    action = jnp.where(greedy, jnp.argmax(logp, axis=-1), sampled).astype(jnp.int32)
    return action, jnp.take_along_axis(logp, action[:, None], axis=-1)[:, 0]


class NetworkActors:
    """Network policies by reference, loaded when first needed and kept while they fit."""

    def __init__(self, store: PolicyStore, *, max_loaded: int = 32) -> None:
        self._store = store
        self._max_loaded = max_loaded
        self._params: OrderedDict[PolicyRef, Any] = OrderedDict()
        self._compiled: dict[str, Callable[..., tuple[jax.Array, jax.Array, jax.Array]]] = {}
        self._program_of: dict[PolicyRef, str] = {}

    def act(
        self,
        ref: PolicyRef,
        observation: NDArray[np.float32],
        legal: NDArray[np.bool_],
        uniform: NDArray[np.float32],
        greedy: NDArray[np.bool_],
    ) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
        """Decide for `[n]` rows; returns actions, log-probabilities and values."""
        params = self._load(ref)
        program = self._compiled[self._program_of[ref]]
        n = len(uniform)
        padded = -(-n // CHUNK) * CHUNK
        if padded != n:
            observation, legal, uniform, greedy = (_pad(x, padded) for x in (observation, legal, uniform, greedy))
        parts = []
        for start in range(0, padded, CHUNK):
            rows = slice(start, start + CHUNK)
            parts.append(program(params, observation[rows], legal[rows], uniform[rows], greedy[rows]))
        columns = [np.concatenate([np.asarray(part[k]) for part in parts])[:n] for k in range(3)]
        return columns[0], columns[1], columns[2]

    def prepare(self, shape: PolicyShape) -> None:
        """Compile the program for a shape before it is needed in play."""
        network = shape.build()
        self._compiled[repr(shape)] = program = compile_actor(shape)
        program(
            network.init(0),
            np.zeros((CHUNK, *shape.observation_shape), np.float32),
            np.ones((CHUNK, shape.actions), np.bool_),
            np.zeros(CHUNK, np.float32),
            np.zeros(CHUNK, np.bool_),
        )

    def _load(self, ref: PolicyRef) -> Any:
        if ref in self._params:
            self._params.move_to_end(ref)
            return self._params[ref]
        loaded = self._store.load(ref)
        key = repr(loaded.shape)
        if key not in self._compiled:
            self._compiled[key] = compile_actor(loaded.shape)
        self._program_of[ref] = key
        self._params[ref] = {name: jnp.asarray(tensor) for name, tensor in loaded.weights.items()}
        while len(self._params) > self._max_loaded:
            old, _ = self._params.popitem(last=False)
            self._program_of.pop(old)
        return self._params[ref]


def compile_actor(shape: PolicyShape) -> Callable[..., tuple[jax.Array, jax.Array, jax.Array]]:
    """The program that decides for one chunk of rows."""
    network = shape.build()

    def program(
        params: Any, observation: jax.Array, legal: jax.Array, uniform: jax.Array, greedy: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        logits, value = network.apply(params, observation)
        action, logp = choose(logits, legal, uniform, greedy)
        return action, logp, value

    return jax.jit(program)


def _pad(rows: NDArray[Any], count: int) -> NDArray[Any]:
    padded = np.zeros((count, *rows.shape[1:]), rows.dtype)
    padded[: len(rows)] = rows
    if rows.dtype == np.bool_ and rows.ndim == 2:
        padded[len(rows) :, 0] = True
    return padded
