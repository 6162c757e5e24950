"""What an operator is: it looks at raw rows of whole groups and says which are refused, and what the others get."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ludus.experience.groups import Groups
from ludus.records import Experiences

Values = NDArray[np.float64]
Why = tuple[str, str]
"""A word that refusals are counted by, such as `too_short`, and a sentence for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What an operator makes of n rows."""

    refused: Mapping[int, Why] = field(default_factory=dict)
    """Rows that are not to be trained on, by their index, and why."""
    rewards: Values | None = None
    """New total of each row, `[n]`; None leaves them as they are."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Numbers to be averaged and logged, `[k]` by name, such as one for each group."""


class Operator(Protocol):
    """Turns raw rows into verified ones.

    The same group must get the same verdict whatever else is in the batch, because groups come in any company: an
    operator keeps nothing between calls and looks at nothing beyond a row's own group.
    """

    def judge(self, rows: Experiences, groups: Groups) -> Verdict:
        """Judge the rows of whole groups, which are not to be changed. Called once for each row of the run."""
        ...


def refuse(bad: NDArray[np.bool_], reason: str, detail: Callable[[int], str]) -> dict[int, Why]:
    """Refuse the rows of a mask `[n]`."""
    return {row: (reason, detail(row)) for row in np.flatnonzero(bad).tolist()}
