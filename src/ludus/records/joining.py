"""Put rows of different origin behind each other: what the policy did, what experts did, what people brought back.

Invariant: rows keep their values; a column that some of them lack is filled with what its absence means (`ABSENT`), or
with nothing of its type. What was seen on a board cannot be made up: rows with and without it do not go together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.errors import LudusError
from ludus.records.experience import Experiences

ABSENT: Mapping[str, Any] = {"source": "on_policy", "pair": -1, "chosen": False, "format_ok": True, "baseline": np.nan}
"""What it means that a row does not have a column, where that is not 0, false or empty."""
_LIKE = {"raw_reward": "shaped_reward"}
"""Columns that are the same as another one unless something says otherwise."""
_BOARD = ("observation", "legal")


def join(parts: Sequence[Experiences]) -> Experiences:
    """All rows, in order, with the columns of all parts.

    Raises:
        LudusError: rows with observations and rows without, or of different shapes.
    """
    parts = [part for part in parts if len(part)]
    if len(parts) < 2:
        return parts[0] if parts else Experiences.empty()
    sequences = _prototypes([part.sequences for part in parts])
    steps = _prototypes([part.steps for part in parts])
    return Experiences.concatenate([_completed(part, sequences, steps) for part in parts])


def _prototypes(columns: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """One column of each name, to take its type and shape from."""
    return {name: column for mapping in columns for name, column in mapping.items()}


def _completed(
    part: Experiences, sequences: Mapping[str, NDArray[Any]], steps: Mapping[str, NDArray[Any]]
) -> Experiences:
    if part.sequences.keys() == sequences.keys() and part.steps.keys() == steps.keys():
        _check_board(part, steps)
        return part
    _check_board(part, steps)
    rows, elements = len(part), int(part.offsets[-1])
    return part.replace(
        sequences={
            name: part.sequences[_LIKE[name]].copy() if name in _LIKE else _filled(name, like, rows)
            for name, like in sequences.items()
            if name not in part.sequences
        },
        steps={name: _filled(name, like, elements) for name, like in steps.items() if name not in part.steps},
    )


def _check_board(part: Experiences, steps: Mapping[str, NDArray[Any]]) -> None:
    for name in _BOARD:
        if name in steps and (name not in part.steps or part.steps[name].shape[1:] != steps[name].shape[1:]):
            raise LudusError(f"rows with and without the same kind of {name} cannot be in one batch")


def _filled(name: str, like: NDArray[Any], count: int) -> NDArray[Any]:
    if like.dtype.kind in "OU":
        return np.full(count, ABSENT.get(name, ""), object)
    return np.full((count, *like.shape[1:]), ABSENT.get(name, 0), like.dtype)
