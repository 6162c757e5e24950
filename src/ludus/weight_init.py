"""How weights begin. Drawn in NumPy: compiling a QR decomposition for every shape would take seconds.

Invariant: a weight depends on the seed, its name, its shape and its beginning, and on nothing else. To add a kind,
write a function of (generator, shape, scale) and put it into `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ludus.records import derive_seed

Shape = tuple[int, ...]


class Beginning(NamedTuple):
    """Kind and scale."""

    kind: str
    scale: float = 1.0


def draw(beginning: Beginning, *, seed: int, name: str, shape: Shape) -> NDArray[np.float32]:
    """The first value of a weight."""
    generator = np.random.default_rng(derive_seed(seed, "weights", name))
    return KINDS[beginning.kind](generator, shape, beginning.scale).astype(np.float32)


def _zeros(generator: np.random.Generator, shape: Shape, scale: float) -> NDArray[np.float64]:
    return np.zeros(shape)


def _orthogonal(generator: np.random.Generator, shape: Shape, scale: float) -> NDArray[np.float64]:
    """Orthonormal columns (or rows, whichever are fewer) over the last axis, times the scale."""
    rows, columns = prod(shape[:-1]), shape[-1]
    normal = generator.standard_normal((max(rows, columns), min(rows, columns)))
    basis, upper = np.linalg.qr(normal)
    basis = basis * np.sign(np.diag(upper))
    return scale * (basis if rows >= columns else basis.T).reshape(shape)


def _he(generator: np.random.Generator, shape: Shape, scale: float) -> NDArray[np.float64]:
    """Normal with variance 2 / fan-in: keeps the size of activations through ReLU layers."""
    return scale * sqrt(2.0 / prod(shape[:-1])) * generator.standard_normal(shape)


def _xavier(generator: np.random.Generator, shape: Shape, scale: float) -> NDArray[np.float64]:
    """Normal with variance 2 / (fan-in + fan-out), over the area of a convolution."""
    area = prod(shape[:-2])
    return scale * sqrt(2.0 / (area * (shape[-2] + shape[-1]))) * generator.standard_normal(shape)


def _ones(generator: np.random.Generator, shape: Shape, scale: float) -> NDArray[np.float64]:
    return np.full(shape, scale)


def _uniform(generator: np.random.Generator, shape: Shape, scale: float) -> NDArray[np.float64]:
    """Uniform between minus and plus the scale."""
    return generator.uniform(-scale, scale, shape)


KINDS: dict[str, Callable[[np.random.Generator, Shape, float], NDArray[np.float64]]] = {
    "zeros": _zeros,
    "orthogonal": _orthogonal,
    "he": _he,
    "uniform": _uniform,
    "xavier": _xavier,
    "ones": _ones,
}
