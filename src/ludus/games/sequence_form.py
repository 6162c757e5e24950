"""A small two-player zero-sum game as arrays, the sequence form (von Stengel 1996), and what is computed on it exactly.

A *sequence* of a seat is its last decision together with all of its own before it; sequence 0 is "no decision yet". A
*plan* of a seat, `[sequences]`, holds for each sequence the probability with which the seat's own decisions lead there:
`plan[0] == 1`, and the sequences of an information set add up to the one that leads to it. A mixture of policies is the
same mixture of their plans, and expected payoffs are linear in the plan of either seat.

Invariant: information sets are ordered by the number of the seat's own decisions before them, and the sequences of an
information set are adjacent; a best response is then one pass of a few array operations for each such level.
`sequence_form_building.py` makes these from a game's tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Choices = NDArray[np.bool_]
"""`[sequences]`: which actions a policy plays, all of an information set alike. True at sequence 0."""
Ties = Literal["even", "first"]

_ROUNDING = 1e-12
"""Values that differ by less, relative to the largest, are equal but for rounding."""


@dataclass(frozen=True, kw_only=True)
class SeatTree:
    """The decisions of one seat."""

    information_sets: tuple[str, ...]
    """What the seat knows at each decision, as the game says it."""
    parents: Indices
    """`[information sets]`: the sequence that leads to each."""
    starts: Indices
    """`[information sets]`: the first of each one's sequences."""
    actions: Indices
    """`[sequences]`: the action that each ends with; -1 for sequence 0."""
    levels: tuple[tuple[int, int], ...]
    """Information sets `[first, last)` after 0, 1, 2, ... own decisions."""

    @property
    def sequences(self) -> int:
        """How many there are, the empty one included."""
        return len(self.actions)

    @cached_property
    def widths(self) -> Indices:
        """`[information sets]`: the number of actions in each."""
        return np.diff(self.starts, append=self.sequences)

    @cached_property
    def owners(self) -> Indices:
        """`[sequences - 1]`: the information set of each sequence but the empty one."""
        return np.repeat(np.arange(len(self.starts)), self.widths)

    @cached_property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Sequences `[first, last)` of the information sets of each level."""
        ends = [*self.starts.tolist(), self.sequences]
        return tuple((ends[first], ends[last]) for first, last in self.levels)

    def plan_of(self, policy: Floats) -> Floats:
        """The plan of a policy, `[sequences]`: at each the probability of its action where it is decided."""
        plan = np.ones(self.sequences)
        for start, end in self.spans:
            plan[start:end] = policy[start:end] * plan[self.parents[self.owners[start - 1 : end - 1]]]
        return plan

    def policy_of(self, plan: Floats) -> Floats:
        """The inverse of `plan_of`; uniform in information sets that the plan never reaches."""
        reach = plan[self.parents[self.owners]]
        policy = np.ones(self.sequences)
        policy[1:] = np.where(reach > 0, plan[1:] / np.where(reach > 0, reach, 1.0), 1.0 / self.widths[self.owners])
        return policy

    def policy_of_choices(self, choices: Choices) -> Floats:
        """The policy that plays the chosen actions of every information set alike."""
        policy = choices.astype(np.float64)
        policy[1:] /= np.bincount(self.owners, policy[1:], minlength=len(self.starts))[self.owners]
        return policy


@dataclass(frozen=True, slots=True, kw_only=True)
class BestResponse:
    """A policy that no other does better than against a given opponent."""

    value: float
    """What it gets."""
    choices: Choices
    """One of the policies that get it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceForm:
    """A whole game. What seat 0 gets is what seat 1 loses."""

    game: str
    """As OpenSpiel names it."""
    seats: tuple[SeatTree, SeatTree]
    rows: Indices
    columns: Indices
    payoffs: Floats
    """`[leaves]` each: what seat 0 gets, times chance, where the seats' decisions were these two sequences."""
    histories: int
    """Nodes of the tree that it was made from."""

    def payoff(self, first: Floats, second: Floats) -> float:
        """What seat 0 can expect when both follow these plans."""
        return float(np.dot(self.payoffs, first[self.rows] * second[self.columns]))

    def gains(self, seat: int, opponent: Floats) -> Floats:
        """What each of the seat's sequences brings it at the leaves directly below, against the opponent's plan."""
        mine, theirs = (self.rows, self.columns) if seat == 0 else (self.columns, self.rows)
        payoffs = self.payoffs if seat == 0 else -self.payoffs
        gains = np.bincount(mine, payoffs * opponent[theirs], minlength=self.seats[seat].sequences)
        return gains.astype(np.float64, copy=False)

    def best_response(self, seat: int, opponent: Floats, ties: Ties = "even") -> BestResponse:
        """What the seat can get against the opponent's plan, and how.

        Args:
            seat: who responds.
            opponent: the other seat's plan.
            ties: of equally good actions, and wherever the opponent never leads, play `even`ly all, or the `first`.
        """
        tree, values = self.seats[seat], self.gains(seat, opponent)
        for (first, last), (start, end) in zip(reversed(tree.levels), reversed(tree.spans), strict=True):
            best = np.maximum.reduceat(values[start:end], tree.starts[first:last] - start)
            values[:start] += np.bincount(tree.parents[first:last], best, minlength=start)
        return BestResponse(value=float(values[0]), choices=_best_choices(tree, values, ties))

    def nash_conv(self, first: Floats, second: Floats) -> float:
        """How much the seats could gain, added up, by answering the other's plan; 0 exactly in an equilibrium."""
        return self.best_response(0, second).value + self.best_response(1, first).value


def _best_choices(tree: SeatTree, values: Floats, ties: Ties) -> Choices:
    choices = np.ones(tree.sequences, np.bool_)
    if not len(tree.starts):
        return choices
    slack = _ROUNDING * np.abs(values).max()
    choices[1:] = values[1:] >= np.maximum.reduceat(values, tree.starts)[tree.owners] - slack
    if ties == "first":
        chosen = np.flatnonzero(choices[1:])
        firsts = chosen[np.unique(tree.owners[chosen], return_index=True)[1]] + 1
        choices[1:] = False
        choices[firsts] = True
    return choices
