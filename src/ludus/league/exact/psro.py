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

from ludus.games.sequence_form import BestResponse, Floats, SequenceForm, Ties
from ludus.league.exact.meta_game import MetaStrategy, solve_meta_game
from ludus.league.exact.population import SeatPopulation

_RECENT = 20
"""Policies that had a weight in one of so many generations are likely to have one in the next."""
_ROUNDING = 1e-13


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
        for population, weights in zip(self.populations, self.meta.seats, strict=True):
            population.note_use(weights, generation=generation)
        self._respond()
        self.curve.append(self.nash_conv)

    def policies(self) -> tuple[Floats, Floats]:
        """The meta-strategy as one policy of each seat, `[sequences]`: in games of perfect recall they are the same."""
        first, second = (
            tree.policy_of(plan) for tree, plan in zip(self.form.seats, (self._mixed(0), self._mixed(1)), strict=True)
        )
        return first, second

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All that `load` needs to go on exactly."""
        seats = {
            f"seat_{seat}/{name}": tensor
            for seat, population in enumerate(self.populations)
            for name, tensor in {**population.tensors(), "meta_strategy": self.meta.seats[seat]}.items()
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
        return self.populations[seat].mix(self.meta.seats[seat])

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
