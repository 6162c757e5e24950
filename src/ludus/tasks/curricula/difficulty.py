"""The `difficulty` of rows, as curricula use it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ludus.errors import ConfigError
from ludus.tasks.curricula.protocol import Rows
from ludus.tasks.json_values import as_number
from ludus.tasks.rows import DIFFICULTY


def difficulties_of(rows: Rows) -> NDArray[np.float64] | None:
    """The difficulty of each row, `[n]`; None when not every row has one."""
    numbers = [as_number(row.get(DIFFICULTY)) for row in rows]
    return None if None in numbers else np.array(numbers, np.float64)


def required_difficulties(rows: Rows) -> NDArray[np.float64]:
    """As `difficulties_of`, where they must be there."""
    difficulties = difficulties_of(rows)
    if difficulties is None:
        raise ConfigError(
            f"order easy_to_hard needs a number {DIFFICULTY!r} in every row; the processor score_difficulty makes it"
        )
    return difficulties


def levels_of(difficulties: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Which of `count` equal parts each row is in, `[n]`; rows of the same difficulty are in the same."""
    easier = np.searchsorted(np.sort(difficulties), difficulties, side="left")
    return easier * count // len(difficulties)
