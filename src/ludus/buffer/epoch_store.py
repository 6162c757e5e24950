"""A store whose rows come round in epochs: expert demonstrations, and preference pairs.

Invariants:
- What comes next is a pure function of (seed, cursor), and a cursor is three numbers. Rows that are added in the course
  of an epoch join with the next one, so a cursor means the same however many rows there are by now.
- Claims are committed in the order in which they were made, each with the update that was trained on it. The state
  knows of committed ones alone, so after a crash the next claim is the first that was not committed, and no row is left
  out of an epoch or in it twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ludus.errors import LudusError, StorageError
from ludus.records import Experiences, derive_seed, join

Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """How far a store has been read."""

    epoch: int = -1
    """-1 before the first."""
    position: int = 0
    """Rows of this epoch that have been given out."""
    size: int = 0
    """Rows of this epoch."""


class Shelf(Protocol):
    """Rows by number. Those that are there keep their numbers; others may be added behind them."""

    def __len__(self) -> int: ...

    def read(self, places: Places | Sequence[int]) -> Experiences:
        """These rows, in this order."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Rows given out for one update."""

    experiences: Experiences
    behind: Cursor
    """The cursor behind them."""


class EpochStore:
    """Claim, train, commit. Only the last of the shelves may grow."""

    def __init__(
        self, name: str, shelves: Sequence[Shelf], *, seed: int, fingerprint: str = "", rows_per_item: int = 1
    ) -> None:
        """One store.

        Args:
            name: The source of its rows, `expert` or `pairs`.
            shelves: Where they are, one behind the other.
            fingerprint: What tells the rows from others; a state is of use with the same rows only.
            rows_per_item: Rows that follow each other and stay together: 2 for pairs.
        """
        self.name = name
        self._shelves = tuple(shelves)
        self._seed = derive_seed(seed, name)
        self._fingerprint = fingerprint
        self._rows_per_item = rows_per_item
        self._committed = Cursor()
        self._open: deque[Drawn] = deque()

    def __len__(self) -> int:
        """Items (rows, or pairs) in the store."""
        return sum(map(len, self._shelves)) // self._rows_per_item

    def metrics(self) -> dict[str, float]:
        """How often the store has been gone through, as far as committed."""
        cursor = self._committed
        epochs = cursor.epoch + cursor.position / cursor.size if cursor.size else 0.0
        return {f"buffer/{self.name}_epochs": epochs}

    def claim(self, items: int) -> Drawn:
        """Give out the next items, all of which are open until committed."""
        cursor = self._open[-1].behind if self._open else self._committed
        places, behind = draw(cursor, items, seed=self._seed, size=len(self))
        each = np.arange(self._rows_per_item)
        rows = self._read((places[:, None] * self._rows_per_item + each).reshape(-1))
        source = np.full(len(rows), self.name, object)
        drawn = Drawn(experiences=rows.replace(sequences={"source": source}), behind=behind)
        self._open.append(drawn)
        return drawn

    def commit(self, drawn: Drawn) -> None:
        """The items have been trained on. Durable with the next checkpoint, whose manifest holds `state()`."""
        if not self._open or self._open[0] is not drawn:
            raise LudusError(f"claims of the store {self.name} must be committed in the order they were made")
        self._committed = self._open.popleft().behind

    def state(self) -> dict[str, Any]:
        """JSON for a checkpoint. Open claims do not count."""
        return {**asdict(self._committed), "fingerprint": self._fingerprint}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint.

        Raises:
            StorageError: the state belongs to other rows.
        """
        cursor = Cursor(epoch=int(state["epoch"]), position=int(state["position"]), size=int(state["size"]))
        if state["fingerprint"] != self._fingerprint or cursor.size > len(self):
            raise StorageError(
                f"the {self.name} rows of this run are not those that its checkpoint was made with; "
                f"put the folder {self.name}/ of the run back as it was, or start another run"
            )
        self._open.clear()
        self._committed = cursor

    def _read(self, places: Places) -> Experiences:
        """Rows by number over all shelves."""
        parts: list[Experiences] = []
        order: list[Places] = []
        first = 0
        for shelf in self._shelves:
            here = np.flatnonzero((places >= first) & (places < first + len(shelf)))
            if len(here):
                parts.append(shelf.read(places[here] - first))
                order.append(here)
            first += len(shelf)
        rows = join(parts)
        return rows if len(parts) < 2 else rows.take(np.argsort(np.concatenate(order), kind="stable"))


def draw(cursor: Cursor, count: int, *, seed: int, size: int) -> tuple[Places, Cursor]:
    """The next `count` places among `size`, and the cursor behind them; a new epoch begins where one ends.

    Raises:
        LudusError: there is nothing to draw from.
    """
    if not size:
        raise LudusError("there are no rows to draw from")
    parts: list[Places] = []
    while count:
        if cursor.position >= cursor.size:
            cursor = Cursor(epoch=cursor.epoch + 1, size=size)
        part = _order(seed, cursor.epoch, cursor.size)[cursor.position : cursor.position + count]
        parts.append(part)
        count -= len(part)
        cursor = Cursor(epoch=cursor.epoch, position=cursor.position + len(part), size=cursor.size)
    return np.concatenate([np.zeros(0, np.int64), *parts]), cursor


@lru_cache(maxsize=4)
def _order(seed: int, epoch: int, size: int) -> Places:
    key = derive_seed(seed, "epoch", epoch)
    order: Places = np.random.Generator(np.random.Philox(key=key)).permutation(size)
    order.flags.writeable = False
    return order
