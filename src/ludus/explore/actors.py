"""Network policies at play: observations in, actions with log-probabilities and values out.

Invariant: what a row gets does not depend on its neighbours. Every call has the same shape (`CHUNK` rows, padded), so
XLA runs the same instructions for a row whichever games it is batched with; that makes split runs repeatable.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ludus.policies import PolicyShape, PolicyStore
from ludus.records import PolicyRef

CHUNK = 64

Program = Callable[..., tuple[jax.Array, ...]]


class Needs(NamedTuple):
    """What a policy is asked with, besides what its seat sees; 0 where it needs no such thing."""

    state: int = 0
    """Numbers of the whole state, for its critic."""
    memory: int = 0
    """Numbers that it wants to be given back at the seat's next decision."""


class Decided(NamedTuple):
    """What a policy decided for n rows."""

    actions: NDArray[np.int32]
    logps: NDArray[np.float32]
    values: NDArray[np.float32]
    memory: NDArray[np.float32]
    """`[n, M]`."""


class _Loaded(NamedTuple):
    params: Any
    program: Program
    needs: Needs


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
        self._loaded: OrderedDict[PolicyRef, _Loaded] = OrderedDict()
        self._compiled: dict[str, Program] = {}
        # A chunk takes less time than handing it to another thread does.
        jax.config.update("jax_cpu_enable_async_dispatch", False)  # type: ignore[no-untyped-call]

    def needs(self, ref: PolicyRef) -> Needs:
        """What the policy must be given."""
        return self._load(ref).needs

    def act(
        self,
        ref: PolicyRef,
        observation: NDArray[np.float32],
        legal: NDArray[np.bool_],
        uniform: NDArray[np.float32],
        greedy: NDArray[np.bool_],
        state: NDArray[np.float32] | None = None,
        memory: NDArray[np.float32] | None = None,
    ) -> Decided:
        """Decide for `[n]` rows. Without `state [n, G]` values mean nothing; without `memory [n, M]` it is empty."""
        params, program, needs = self._load(ref)
        n = len(uniform)
        state = np.zeros((n, needs.state), np.float32) if state is None else state
        memory = np.zeros((n, needs.memory), np.float32) if memory is None else memory
        columns = [observation, legal, uniform, greedy, state, memory]
        padded = -(-n // CHUNK) * CHUNK
        if padded != n:
            columns = [_pad(x, padded) for x in columns]
        parts = []
        for start in range(0, padded, CHUNK):
            parts.append(program(params, *(column[start : start + CHUNK] for column in columns)))
        return Decided(*(np.concatenate([np.asarray(part[k]) for part in parts])[:n] for k in range(4)))

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
            np.zeros((CHUNK, network.state_size), np.float32),
            np.zeros((CHUNK, network.memory_size), np.float32),
        )

    def _load(self, ref: PolicyRef) -> _Loaded:
        if ref in self._loaded:
            self._loaded.move_to_end(ref)
            return self._loaded[ref]
        loaded = self._store.load(ref)
        key = repr(loaded.shape)
        if key not in self._compiled:
            self._compiled[key] = compile_actor(loaded.shape)
        network = loaded.shape.build()
        params = {name: jnp.asarray(tensor) for name, tensor in loaded.weights.items()}
        needs = Needs(network.state_size, network.memory_size)
        self._loaded[ref] = _Loaded(params, self._compiled[key], needs)
        while len(self._loaded) > self._max_loaded:
            self._loaded.popitem(last=False)
        return self._loaded[ref]


def compile_actor(shape: PolicyShape) -> Program:
    """The program that decides for one chunk of rows."""
    network = shape.build()

    def program(
        params: Any,
        observation: jax.Array,
        legal: jax.Array,
        uniform: jax.Array,
        greedy: jax.Array,
        state: jax.Array,
        memory: jax.Array,
    ) -> tuple[jax.Array, ...]:
        logits, value, memory = network.step(params, observation, state, memory)
        action, logp = choose(logits, legal, uniform, greedy)
        return action, logp, value, memory

    return jax.jit(program)


def _pad(rows: NDArray[Any], count: int) -> NDArray[Any]:
    padded = np.zeros((count, *rows.shape[1:]), rows.dtype)
    padded[: len(rows)] = rows
    if rows.dtype == np.bool_ and rows.ndim == 2:
        padded[len(rows) :, 0] = True
    return padded
