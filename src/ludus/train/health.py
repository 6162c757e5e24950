"""Whether an update was sound and, where too many steps were skipped, what was not finite first.

Invariant: the learning rate is blamed only where the rows were finite and no loss of the user's own failed first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.config import LOSS_OPTIONS, TrainConfig
from ludus.errors import TrainError

NOT_FINITE = "not_finite/"
"""Prefix of flags among the metrics of an update: 1 where that metric of the last skipped step was not finite."""
LOWER = "lower train.optimizer.learning_rate, or look for extreme rewards"
COLUMNS = ("observation", "reward", "logp", "value", "advantage", "target")
"""In the order in which they are computed from each other."""


def checked(metrics: Mapping[str, Any], train: TrainConfig, look: Callable[[], str] = str) -> dict[str, Any]:
    """The metrics without the flags of what was not finite.

    Args:
        metrics: of an update.
        train: how long steps may be skipped, and what the objective is.
        look: says which number of the batch is not finite, or nothing. Called only where a reason is needed.

    Raises:
        TrainError: too many optimizer steps in a row were skipped; it says what was not finite.
    """
    in_a_row = int(metrics["skipped_in_a_row"])
    if in_a_row >= train.max_skipped:
        flagged = [name.removeprefix(NOT_FINITE) for name, x in metrics.items() if name.startswith(NOT_FINITE) and x]
        raise TrainError(f"the last {in_a_row} optimizer steps were skipped: {look() or _reason(flagged, train)}")
    return {name: value for name, value in metrics.items() if not name.startswith(NOT_FINITE)}


def not_finite_row(steps: Mapping[str, NDArray[Any]], weight: NDArray[Any] | None = None) -> str:
    """`advantage is nan in row 3 of the batch`: the first column that has a number that is not finite; else nothing.

    Args:
        steps: columns `[N, ...]`.
        weight: `[N]`; rows of weight 0 do not count.
    """
    for name in (name for name in COLUMNS if name in steps):
        column = np.asarray(steps[name])
        if column.dtype.kind != "f":
            continue
        bad = ~np.isfinite(column)
        if weight is not None:
            bad &= np.reshape(np.asarray(weight) > 0, np.shape(weight) + (1,) * (bad.ndim - np.ndim(weight)))
        if bad.any():
            first = tuple(int(place) for place in np.argwhere(bad)[0])
            inside = f", place {list(first[1:])}" if len(first) > 1 else ""
            return f"{name} is {column[first]} in row {first[0]} of the batch{inside}"
    return ""


def _reason(flagged: list[str], train: TrainConfig) -> str:
    """What was not finite in the last skipped step; `flagged` are names of its metrics."""
    losses = [term.loss for term in train.algorithm.objective or ()]
    failed = [name for name in losses if any(flag == name or flag.startswith(f"{name}_") for flag in flagged)]
    own = [name for name in failed if name not in LOSS_OPTIONS]
    if "entropy" in flagged:
        return f"the network's output is not finite, although the rows are: {LOWER}"
    if own:
        return (
            f"the loss {' and '.join(own)} is not finite, although the rows and the network's output are: look for a "
            f"log, a root or a division by 0 in it"
        )
    if failed:
        return f"the loss {' and '.join(failed)} is not finite, although the rows are: {LOWER}"
    mine = [name for name in losses if name not in LOSS_OPTIONS]
    look = f"look for a root or a division by 0 in {' and '.join(mine)}, or " if mine else ""
    return f"the gradient is not finite, although every loss is: {look}{LOWER}"
