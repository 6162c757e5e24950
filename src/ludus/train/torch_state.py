"""What a PyTorch learner keeps between updates, and its form on disk: NumPy arrays by name, bit-exact both ways.

The form does not depend on how weights are laid out in memory: the optimizer's moments carry the names of the weights
they belong to, as in `mu.value_head.weight`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ludus.errors import CorruptRecord
from ludus.train.torch_optimizer import Moments
from ludus.train.torch_weights import Layout

Tensors = dict[str, NDArray[Any]]


@dataclass(slots=True, kw_only=True)
class TorchState:
    """Weights and optimizer. An update changes it in place."""

    vector: torch.Tensor
    """float32 `[P]`: all weights, in the learner's layout."""
    moments: Moments
    """float32 `[P]` each, by name."""
    steps: int = 0
    """Optimizer steps taken."""
    skipped: int = 0
    """Optimizer steps skipped in a row, up to now."""


def state_tensors(state: TorchState, layout: Layout) -> dict[str, Tensors]:
    """The state in two parts, `weights` and `optimizer`, as copies."""
    optimizer: Tensors = {"steps": np.array(state.steps, np.int64), "skipped": np.array(state.skipped, np.int64)}
    for moment, vector in state.moments.items():
        optimizer |= {f"{moment}.{name}": tensor for name, tensor in layout.unpack(vector).items()}
    return {"weights": layout.unpack(state.vector), "optimizer": optimizer}


def state_from_tensors(
    tensors: Mapping[str, Mapping[str, NDArray[Any]]], layout: Layout, moments: tuple[str, ...], device: torch.device
) -> TorchState:
    """The state that `state_tensors` wrote.

    Raises:
        CorruptRecord: names, shapes or types are not those of this learner.
    """
    floats = {name: (shape, np.dtype(np.float32)) for name, shape in layout.shapes.items()}
    counts = {name: ((), np.dtype(np.int64)) for name in ("steps", "skipped")}
    remembered = {f"{moment}.{name}": what for moment in moments for name, what in floats.items()}
    _compare("weights", floats, tensors["weights"])
    _compare("optimizer", {**counts, **remembered}, tensors["optimizer"])
    saved = tensors["optimizer"]
    return TorchState(
        vector=layout.pack(tensors["weights"], device),
        moments={
            moment: layout.pack({name: saved[f"{moment}.{name}"] for name in floats}, device) for moment in moments
        },
        steps=int(saved["steps"]),
        skipped=int(saved["skipped"]),
    )


def _compare(
    part: str, expected: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]], found: Mapping[str, NDArray[Any]]
) -> None:
    problems = [f"{name} is missing" for name in expected.keys() - found.keys()]
    problems += [f"{name} is unknown" for name in found.keys() - expected.keys()]
    for name in expected.keys() & found.keys():
        shape, dtype = expected[name]
        have = found[name]
        if (shape, dtype) != (have.shape, have.dtype):
            problems.append(f"{name} is {have.dtype}{list(have.shape)}, expected {dtype}{list(shape)}")
    if problems:
        problems.sort()
        more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise CorruptRecord(f"{part} do not fit this model and optimizer: {'; '.join(problems[:5])}{more}")
