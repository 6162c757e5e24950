"""The policies of one seat: what each plays, its plan, and when it was last of use.

Invariant: a policy's place never changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.games.sequence_form import Choices, Floats, SeatTree

_FIRST_ROOM = 16


class SeatPopulation:
    """Grows by `add`. Begins with the policy that plays everything alike."""

    def __init__(self, tree: SeatTree) -> None:
        self._tree = tree
        self._count = 0
        self._choices = np.zeros((_FIRST_ROOM, tree.sequences), np.bool_)
        self._plans = np.zeros((_FIRST_ROOM, tree.sequences))
        self._joined = np.zeros(_FIRST_ROOM, np.int64)
        self._last_used = np.zeros(_FIRST_ROOM, np.int64)
        self._known: set[bytes] = set()
        self.add(np.ones(tree.sequences, np.bool_), generation=0)

    def __len__(self) -> int:
        return self._count

    @property
    def plans(self) -> Floats:
        """`[policies, sequences]`."""
        return self._plans[: self._count]

    @property
    def joined(self) -> NDArray[np.int64]:
        """`[policies]`: the generation in which each joined."""
        return self._joined[: self._count]

    def knows(self, choices: Choices) -> bool:
        """Whether this policy is one of them."""
        return choices.tobytes() in self._known

    def add(self, choices: Choices, *, generation: int) -> Floats:
        """Let a new policy join; returns its plan."""
        if self._count == len(self._plans):
            self._grow()
        place, plan = self._count, self._tree.plan_of(self._tree.policy_of_choices(choices))
        self._choices[place], self._plans[place] = choices, plan
        self._joined[place] = self._last_used[place] = generation
        self._known.add(choices.tobytes())
        self._count += 1
        return plan

    def mix(self, weights: Floats) -> Floats:
        """The plan of the mixture with these weights, `[policies]`."""
        used = np.flatnonzero(weights)
        mixed: Floats = weights[used] @ self._plans[used]
        return mixed

    def note_use(self, weights: Floats, *, generation: int) -> None:
        """These weights are the meta-strategy of a generation."""
        self._last_used[: self._count][weights > 0] = generation

    def used_since(self, generation: int) -> NDArray[np.bool_]:
        """`[policies]`: which were given a weight, or joined, in this generation or later."""
        return self._last_used[: self._count] >= generation

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All that `load` needs; plans follow from it."""
        count = self._count
        return {"choices": self._choices[:count], "joined": self._joined[:count], "last_used": self._last_used[:count]}

    def load(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Replace everything by what `tensors` returned."""
        self._count, self._known = 0, set()
        for choices, joined in zip(tensors["choices"], tensors["joined"], strict=True):
            self.add(choices, generation=int(joined))
        self._last_used[: self._count] = tensors["last_used"]

    def _grow(self) -> None:
        for name in ("_choices", "_plans", "_joined", "_last_used"):
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.zeros_like(column)]))
