"""What a reward transform is, and where its values live in the columns.

    phase      values it sees and returns                         called
    final      [n] total reward of each sequence                  once, when episodes arrive, in task order
    step       [N] reward of each element                         once, after `final`
    sampling   [n] shaped reward of each sequence of a batch      each time a batch is sampled

Invariant: what a `final` or `sampling` transform adds to a sequence's total is added to the reward of its last element
that the policy chose, so `sum(reward) - shaped_reward` never changes in these phases. `final_reward` is never touched.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ludus.records import Experiences

TransformPhase = Literal["final", "step", "sampling"]
Values = NDArray[np.float64]


@runtime_checkable
class Transform(Protocol):
    """Changes rewards. Stateless transforms return `{}` from `state` (inherit from `Stateless`)."""

    def apply(self, values: Values, experiences: Experiences) -> Values:
        """New values of the same shape; neither argument is changed."""
        ...

    def state(self) -> dict[str, Any]:
        """JSON for the checkpoint. Called between batches."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned. Called before the first batch of a resumed run."""
        ...


class Stateless:
    """A transform that remembers nothing."""

    def state(self) -> dict[str, Any]:
        """Nothing to remember."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Nothing to restore."""


def set_totals(experiences: Experiences, totals: Values) -> Experiences:
    """Give each sequence a new `shaped_reward`, and its last chosen element the difference."""
    shaped = totals.astype(np.float32)
    reward = experiences.steps["reward"].copy()
    last = last_chosen(experiences)
    rows = np.flatnonzero(last >= 0)
    added = shaped.astype(np.float64) - experiences.sequences["shaped_reward"]
    reward[last[rows]] += added[rows].astype(np.float32)
    return experiences.replace(sequences={"shaped_reward": shaped}, steps={"reward": reward})


def last_chosen(experiences: Experiences) -> NDArray[np.int64]:
    """Index of the last element of each sequence that the policy chose, `[n]`; -1 where there is none."""
    chosen = np.flatnonzero(experiences.steps["mask"])
    before = np.searchsorted(chosen, experiences.offsets, side="left")
    last = np.full(len(experiences), -1, np.int64)
    rows = np.flatnonzero(before[1:] > before[:-1])
    last[rows] = chosen[before[1:][rows] - 1]
    return last


def decisions(experiences: Experiences) -> NDArray[np.bool_]:
    """Mask `[N]` of the elements that end a decision.

    On a board every chosen element is one. In a token sequence (no observation) a decision is a whole answer: the last
    of a run of chosen tokens ends it.
    """
    mask: NDArray[np.bool_] = experiences.steps["mask"]
    if "observation" in experiences.steps:
        return mask
    goes_on = np.append(mask[1:], False)
    goes_on[experiences.offsets[1:][experiences.lengths > 0] - 1] = False
    ends: NDArray[np.bool_] = mask & ~goes_on
    return ends
