"""What a curriculum is.

choose      when a group's first task is made; again after a resume if the group was not finished
feedback    when all attempts of a group have come back, in the order of the groups
state       at a checkpoint, between groups
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

Rows = Sequence[Mapping[str, Any]]


@runtime_checkable
class Curriculum(Protocol):
    """Chooses the task of each group of attempts at one set.

    The same state and number must give the same row, whichever other numbers were asked for before: a resumed run asks
    only for what is missing. Chance comes from a generator made of (seed, number).
    """

    @property
    def adapts(self) -> bool:
        """Whether feedback changes what is chosen. If not, a choice is a function of its number alone."""
        ...

    def choose(self, number: int) -> int:
        """Which row the `number`-th group of this set attempts, counted from 0."""
        ...

    def feedback(self, row: int, rewards: Sequence[float]) -> None:
        """What the attempts at a row brought; those that failed for other reasons are not among them."""
        ...

    def state(self) -> dict[str, Any]:
        """JSON for the checkpoint."""
        ...

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` returned."""
        ...


class Fixed:
    """Base of curricula that learn nothing: a choice is a function of its number alone."""

    adapts = False

    def feedback(self, row: int, rewards: Sequence[float]) -> None:
        """Nothing to learn."""

    def state(self) -> dict[str, Any]:
        """Nothing to remember."""
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Nothing to restore."""
