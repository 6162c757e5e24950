"""A network as a search asks it: planes in, logits and values out, in batches.

`open_evaluator` takes what people write (`ludus.chess.network_source`). Any network of ludus on `chess:standard` will
do; those of chess also say how often a game is drawn and how long it goes on.
Invariant: batches are padded to a few sizes, so a program is compiled a few times, whatever a search asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ludus.chess.network_source import SHAPE, NetworkSource, open_network
from ludus.config.sections.chess import CHESS_MOVES
from ludus.errors import ConfigError
from ludus.policies import PolicyShape

SIZES = (1, 16, 64, 256)
"""Of batches."""

Floats = NDArray[np.float32]


class Evaluated(NamedTuple):
    """What a network says of n positions, for the side to move."""

    logits: Floats
    """`[n, 1858]`."""
    values: Floats
    """Win, draw and loss, `[n, 3]`; or W - L alone, `[n]`."""
    moves_left: Floats | None
    """Plies, `[n]`."""


class Evaluator:
    """A network and its weights."""

    def __init__(
        self,
        shape: PolicyShape,
        weights: Mapping[str, Any],
        *,
        name: str,
        input_format: int = 1,
        sizes: Sequence[int] = SIZES,
    ) -> None:
        """`sizes` are those of batches, ascending; with a single one, what a row gets does not depend on the others."""
        if tuple(shape.observation_shape) != SHAPE or shape.actions != CHESS_MOVES:
            raise ConfigError(f"{name} plays {', '.join(shape.games)}, not chess:standard")
        self.name = name
        self.input_format = input_format
        self._sizes = tuple(sizes)
        self._params = _on_device(weights)
        self._program = jax.jit(_program(shape))

    def __call__(self, planes: Floats) -> Evaluated:
        """Evaluate planes `[n, 112, 8, 8]`."""
        most = self._sizes[-1]
        parts = [self._batch(planes[start : start + most]) for start in range(0, len(planes), most)]
        logits, values, moves_left = zip(*parts, strict=True)
        has_length = moves_left[0] is not None
        return Evaluated(
            np.concatenate(logits), np.concatenate(values), np.concatenate(moves_left) if has_length else None
        )

    def with_weights(self, weights: Mapping[str, Any], *, name: str) -> Evaluator:
        """Other weights of the same network; nothing is compiled again."""
        other = copy(self)
        other.name, other._params = name, _on_device(weights)
        return other

    def prepare(self, rows: int) -> None:
        """Compile what a batch of so many rows needs, before it is needed in play."""
        self(np.zeros((rows, *SHAPE), np.float32))

    def _batch(self, planes: Floats) -> tuple[Floats, Floats, Floats | None]:
        size = next(size for size in self._sizes if size >= len(planes))
        padded = planes
        if size != len(planes):
            padded = np.zeros((size, *SHAPE), np.float32)
            padded[: len(planes)] = planes
        logits, values, moves_left = self._program(self._params, padded)
        kept = None if moves_left is None else np.asarray(moves_left)[: len(planes)]
        return np.asarray(logits)[: len(planes)], np.asarray(values)[: len(planes)], kept


def _on_device(weights: Mapping[str, Any]) -> dict[str, jax.Array]:
    return {key: jnp.asarray(tensor) for key, tensor in weights.items()}


def _program(shape: PolicyShape) -> Callable[..., Any]:
    network = shape.build()
    if not shape.network.kind.startswith("chess_"):

        def ordinary(params: Any, planes: jax.Array) -> Any:
            logits, value = network.apply(params, planes)
            return logits, jnp.clip(value, -1.0, 1.0), None

        return ordinary

    def chess(params: Any, planes: jax.Array) -> Any:
        module = network.module(params)
        found = module.outputs(jnp.moveaxis(planes, 1, -1))
        moves_left = next(iter(found.moves_left.values()), None)
        return found.policy[module.main_policy], jax.nn.softmax(found.value[module.main_value]), moves_left

    return chess


def open_evaluator(text: str) -> Evaluator:
    """The network that a text names.

    Raises:
        ConfigError: there is none, or it does not play chess.
        CorruptRecord: the file is damaged.
    """
    return evaluator_of(open_network(text))


def evaluator_of(source: NetworkSource) -> Evaluator:
    """The network of a source, as a search asks it."""
    return Evaluator(source.shape, source.weights, name=source.name, input_format=source.input_format)
