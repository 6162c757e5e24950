"""PSRO with exact parts (double oracle, McMahan et al. 2003): nothing is sampled, so that two runs are the same run.

A generation lets both seats' best responses to the other's meta-strategy join, completes the payoff table, and solves
it again. Invariant: `nash_conv` is that of the meta-strategy as it is now, computed on the whole game by the same best
responses that join next; it is right however good or bad the meta-strategy is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.config import StopConfig
from ludus.games.sequence_form import BestResponse, Choices, Floats, SeatTree, SequenceForm, Ties
from ludus.league.exact.meta_game import MetaStrategy, solve_meta_game

_RECENT = 20
"""Policies that had a weight in one of so many generations are likely to have one in the next."""
_ROUNDING = 1e-13
_FIRST_ROOM = 16


class SeatPopulation:
    """The policies of one seat: what each plays, its plan, and when it was last of use. A policy's place never changes.

    Grows by `add`. Begins with the policy that plays everything alike.
    """

    def __init__(self, tree: SeatTree) -> None:
        self._tree = tree
        self._plans = np.zeros((_FIRST_ROOM, tree.sequences))
        self._choices: list[Choices] = []
        self._joined: list[int] = []
        self._last_used: NDArray[np.int64] = np.zeros(0, np.int64)
        self._known: set[bytes] = set()
        self.add(np.ones(tree.sequences, np.bool_), generation=0)

    def __len__(self) -> int:
        return len(self._choices)

    @property
    def plans(self) -> Floats:
        """`[policies, sequences]`."""
        return self._plans[: len(self)]

    def knows(self, choices: Choices) -> bool:
        """Whether this policy is one of them."""
        return choices.tobytes() in self._known

    def add(self, choices: Choices, *, generation: int) -> Floats:
        """Let a new policy join; returns its plan."""
        if len(self) == len(self._plans):
            self._plans = np.concatenate([self._plans, np.zeros_like(self._plans)])
        plan = self._plans[len(self)] = self._tree.plan_of(self._tree.policy_of_choices(choices))
        self._choices.append(choices)
        self._joined.append(generation)
        self._last_used = np.append(self._last_used, generation)
        self._known.add(choices.tobytes())
        return plan

    def mix(self, weights: Floats) -> Floats:
        """The plan of the mixture with these weights, `[policies]`."""
        used = np.flatnonzero(weights)
        mixed: Floats = weights[used] @ self._plans[used]
        return mixed

    def note_use(self, weights: Floats, *, generation: int) -> None:
        """These weights are the meta-strategy of a generation."""
        self._last_used[weights > 0] = generation

    def used_since(self, generation: int) -> NDArray[np.bool_]:
        """`[policies]`: which were given a weight, or joined, in this generation or later."""
        return self._last_used >= generation

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All that `load` needs; plans follow from it."""
        joined = np.array(self._joined, np.int64)
        return {"choices": np.array(self._choices, np.bool_), "joined": joined, "last_used": self._last_used}

    def load(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Replace everything by what `tensors` returned."""
        self._choices, self._joined, self._last_used, self._known = [], [], np.zeros(0, np.int64), set()
        for choices, joined in zip(tensors["choices"], tensors["joined"], strict=True):
            self.add(choices, generation=int(joined))
        self._last_used = np.array(tensors["last_used"], np.int64)


class ExactPsro:
    """Two populations of one game. `advance` is a generation."""

    def __init__(
        self,
        form: SequenceForm,
        *,
        meta_solver: str = "nash",
        meta_options: Mapping[str, Any] | None = None,
        ties: Ties = "even",
    ) -> None:
        self.form = form
        self.populations = (SeatPopulation(form.seats[0]), SeatPopulation(form.seats[1]))
        self._solver, self._options, self._ties = meta_solver, meta_options, ties
        self._counts_repeats = meta_solver == "uniform"  # a policy that is there twice is played twice as often
        first, second = (population.plans[0] for population in self.populations)
        self.payoffs: Floats = np.array([[form.payoff(first, second)]])
        """`[policies of seat 0, policies of seat 1]`: what seat 0 gets, exactly."""
        self.meta = MetaStrategy(rows=np.ones(1), columns=np.ones(1))
        self.curve: list[float] = []
        """NashConv of every generation."""
        self._respond()
        self.curve.append(self.nash_conv)

    @property
    def generation(self) -> int:
        """Generations done; 0 is the population of one policy that plays everything alike."""
        return len(self.curve) - 1

    @property
    def nash_conv(self) -> float:
        """How far the meta-strategy is from an equilibrium of the whole game; rounding below 0 counts as 0."""
        return max(0.0, self.responses[0].value + self.responses[1].value)

    @property
    def value(self) -> float:
        """What seat 0 can expect when both play their meta-strategies."""
        return float(self.meta.rows @ self.payoffs @ self.meta.columns)

    @property
    def is_solved(self) -> bool:
        """Whether there is nothing to gain for anybody, or nobody who could be added."""
        has_newcomer = any(self._is_wanted(seat) for seat in (0, 1))
        return not has_newcomer or self.nash_conv <= _ROUNDING * float(np.abs(self.payoffs).max())

    def advance(self) -> None:
        """One generation."""
        generation = self.generation + 1
        for seat, response in enumerate(self.responses):
            if self._is_wanted(seat):
                self._add(seat, self.populations[seat].add(response.choices, generation=generation))
        recent = [population.used_since(generation - _RECENT) for population in self.populations]
        self.meta = solve_meta_game(self._solver, self.payoffs, (recent[0], recent[1]), self._options)
        for population, weights in zip(self.populations, self.meta, strict=True):
            population.note_use(weights, generation=generation)
        self._respond()
        self.curve.append(self.nash_conv)

    def policies(self) -> tuple[Floats, Floats]:
        """The meta-strategy as one policy of each seat, `[sequences]`: in games of perfect recall they are the same."""
        first, second = self.form.seats
        return first.policy_of(self._mixed(0)), second.policy_of(self._mixed(1))

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All that `load` needs to go on exactly."""
        seats = {
            f"seat_{seat}/{name}": tensor
            for seat, population in enumerate(self.populations)
            for name, tensor in {**population.tensors(), "meta_strategy": self.meta[seat]}.items()
        }
        return {**seats, "payoffs": self.payoffs, "nash_conv": np.array(self.curve)}

    def load(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Replace everything by what `tensors` returned."""
        for seat, population in enumerate(self.populations):
            names = ("choices", "joined", "last_used")
            population.load({name: tensors[f"seat_{seat}/{name}"] for name in names})
        self.payoffs = tensors["payoffs"]
        self.meta = MetaStrategy(rows=tensors["seat_0/meta_strategy"], columns=tensors["seat_1/meta_strategy"])
        self.curve = tensors["nash_conv"].tolist()
        self._respond()

    def _is_wanted(self, seat: int) -> bool:
        return self._counts_repeats or not self.populations[seat].knows(self.responses[seat].choices)

    def _mixed(self, seat: int) -> Floats:
        return self.populations[seat].mix(self.meta[seat])

    def _respond(self) -> None:
        """Find the best responses that join next."""
        first, second = self._mixed(0), self._mixed(1)
        self.responses: tuple[BestResponse, BestResponse] = (
            self.form.best_response(0, second, self._ties),
            self.form.best_response(1, first, self._ties),
        )

    def _add(self, seat: int, plan: Floats) -> None:
        """Complete the payoff table by a row or a column: the new policy against everybody there is."""
        if seat == 0:
            row = self.populations[1].plans @ -self.form.gains(1, plan)
            self.payoffs = np.vstack([self.payoffs, row])
        else:
            column = self.populations[0].plans @ self.form.gains(0, plan)
            self.payoffs = np.column_stack([self.payoffs, column])


def reason_to_stop(psro: ExactPsro, stop: StopConfig) -> str:
    """Why there should be no further generation, in words; empty as long as there should.

    To add a stopper: a key in `StopConfig`, a line here.
    """
    nash_conv, target = psro.nash_conv, stop.nash_conv
    if target is not None and nash_conv <= target:
        return f"NashConv {nash_conv:.3g} is at most {target:g} (population.stop.nash_conv)"
    if psro.is_solved:
        return f"no policy does better against the meta-strategy (NashConv {nash_conv:.3g})"
    if stop.plateau is not None and psro.generation - int(np.argmin(psro.curve)) >= stop.plateau:
        return f"no lower NashConv in {stop.plateau} generations (population.stop.plateau)"
    if psro.generation >= stop.generations:
        return f"generation {psro.generation} was the last (population.stop.generations)"
    return ""
