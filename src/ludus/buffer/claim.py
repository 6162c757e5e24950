"""A claim: rows of the log that one update is being trained on, until it is committed or abandoned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Claim:
    """Which rows, and how far behind the claiming version they are. Any process can read the rows by their numbers."""

    id: int
    rows: NDArray[np.int64]
    """Sequence numbers in the experience log, `[n]`, in the order of the batch."""
    version: int
    """The version that will be trained."""
    staleness: NDArray[np.int64]
    """Versions that each row is behind, `[n]`, by its oldest element."""

    def __len__(self) -> int:
        return len(self.rows)
