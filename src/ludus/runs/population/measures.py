"""What is known of a population: the meta-strategy of its table, and how far that is from an equilibrium.

Exploitability is exact (`psro/nash_conv`) where the game's tree can be walked, and else a lower bound
(`psro/nash_conv_bound`): what the newest answers gain against the meta-strategy that they were to answer. Invariant:
the name of the metric says which.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ludus.config import PopulationConfig
from ludus.errors import ConfigError, LudusError
from ludus.games.protocol import GameSpec
from ludus.league.matchmaking.roster import label
from ludus.league.payoffs.normal_form import Array, expected_payoffs, marginals
from ludus.league.solvers import solve_joint
from ludus.runs.population.matches import Matches, league_matches
from ludus.runs.population.population_state import PopulationState


class Measures(Protocol):
    """Finds out what policies get, and how far a meta-strategy is from an equilibrium."""

    is_exact: bool
    """Whether exploitability is that of the meta-strategy as it is now; else it is about the one before."""

    def fill(self, state: PopulationState) -> bool:
        """Complete the table; returns False when the run was stopped before."""
        ...

    def exploitability(self, state: PopulationState) -> dict[str, float]:
        """Metrics of the meta-strategy as it is now."""
        ...


class PlayedMeasures:
    """Means over matches; exploitability is bounded by what learners achieve."""

    is_exact = False

    def __init__(self, matches: Matches, config: PopulationConfig) -> None:
        self._config = config
        self._matches = matches

    def fill(self, state: PopulationState) -> bool:
        """Play what is missing. In a league learners meet everybody a little, and members are compared by the way."""
        payoffs = self._config.payoffs
        if self._config.scheduler == "league":
            return self._matches.play(state, league_matches(state, payoffs.games)) and self._matches.compare(
                state, payoffs.extra
            )
        return self._matches.fill(state, payoffs)

    def exploitability(self, state: PopulationState) -> dict[str, float]:
        """A lower bound, once there are answers; in a league nobody answers the meta-strategy."""
        bound = None if self._config.scheduler == "league" else gain_of_newest(state)
        return {} if bound is None else {"psro/nash_conv_bound": bound}


def check_meta_solver(config: PopulationConfig, spec: GameSpec) -> None:
    """See to it that the meta-solver is one for the game.

    Raises:
        ConfigError: it is not.
    """
    sides = len(spec.sides)
    if sides < 2:
        raise ConfigError(f"population: {spec.key} has one side, and nobody to answer; write a game of two or more")
    needs_zero_sum = {"nash", "rectified_nash"}
    is_constant_sum = spec.is_zero_sum and len({len(seats) for seats in spec.sides}) == 1
    if config.meta_solver in needs_zero_sum and (sides != 2 or not is_constant_sum):
        kind = "zero-sum" if spec.is_zero_sum else "general-sum"
        raise ConfigError(
            f"population.meta_solver: {config.meta_solver} is for two players and zero-sum games, and {spec.key} is "
            f"{kind} for {sides}; write cce, ce, alpha_rank, prd or regret_matching"
        )
    try:
        solve_joint(config.meta_solver, np.zeros((sides, *(1,) * sides)), **config.meta_options)
    except LudusError as error:
        raise ConfigError(f"population.meta_options: {error}") from error


def solve_meta_strategy(state: PopulationState, config: PopulationConfig) -> Array:
    """The meta-strategy over those who are frozen, as a joint distribution over all policies of the table."""
    places = state.frozen_places()
    table = state.table.mean()
    part = table[np.ix_(range(len(table)), *places)]
    solved = solve_joint(config.meta_solver, part, symmetric=state.table.symmetric, **config.meta_options)
    whole = np.zeros(table.shape[1:])
    whole[np.ix_(*places)] = solved
    return whole


def shares_by_seat(state: PopulationState) -> list[list[tuple[str, float]]]:
    """How often each policy is played, by seat; one list where all seats share a population."""
    strategies = marginals(state.joint)
    return [
        [(label(ref), float(share)) for ref, share in zip(refs, strategy.tolist(), strict=True) if share > 0]
        for refs, strategy in zip(state.seats, strategies, strict=False)
    ]


def gain_of_newest(state: PopulationState) -> float | None:
    """What the newest answers gain against the meta-strategy before they joined, added up over seats."""
    if not state.history or state.generation == 0:
        return None
    before = state.joint
    table, players = state.table.mean(), state.table.players
    joint = np.zeros(table.shape[1:])
    joint[tuple(slice(size) for size in np.shape(before))] = before
    values = expected_payoffs(np.nan_to_num(table), joint)
    gains = [0.0] * players
    for recruit in state.roster:
        if recruit.generation == state.generation:
            for player in range(players):
                seats = state.seats[0 if state.table.symmetric else player]
                if recruit.ref in seats:
                    gain = _deviation(table, joint, player, seats.index(recruit.ref)) - float(values[player])
                    gains[player] = max(gains[player], gain)
    return sum(gains)


def _deviation(table: Array, joint: Array, player: int, policy: int) -> float:
    """What a player gets by a policy of its own while the others stay with the joint distribution."""
    others = joint.sum(axis=player)
    return float((np.nan_to_num(table[player].take(policy, axis=player)) * others).sum())
