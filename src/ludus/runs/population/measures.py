"""What is known of a population: the meta-strategy of its table, and how far that is from an equilibrium.

Exploitability is exact (`psro/nash_conv`) where the game's tree can be walked, and else a lower bound
(`psro/nash_conv_bound`): what the newest answers gain against the meta-strategy that they were to answer. Invariant:
the name of the metric says which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from typing import Protocol

import numpy as np

from ludus.config import PopulationConfig
from ludus.errors import ConfigError, LudusError
from ludus.games.protocol import GameSpec
from ludus.league import Pool
from ludus.league.matchmaking.match_planner import plan_matches
from ludus.league.matchmaking.matchmaker import spread
from ludus.league.matchmaking.population import UNIFORM, label
from ludus.league.payoffs.normal_form import Array, expected_payoffs, marginals
from ludus.league.solvers import solve_joint
from ludus.orchestrator import RunContext
from ludus.orchestrator.dispatcher import Dispatcher
from ludus.records import Episode, Match, PolicyRef, Seat
from ludus.runs.population.population_state import PopulationState
from ludus.tasks import EvaluationPlan, GameTasks


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


POLL_S = 0.05
SLOTS = 64
Seats = tuple[PolicyRef, ...]
"""Who plays for each side."""


class Matches:
    """Means over matches, played by explorers, which start with the first; exploitability is bounded by what they show.

    Invariant: which matches are played follows from the state, their seeds from their number, and they are counted in
    that order when all of a block have come back; a run that was killed plays the same block again and gets the same
    results.
    """

    is_exact = False

    def __init__(
        self, context: RunContext, pool: Pool, population: PopulationConfig, is_stopping: Callable[[], bool]
    ) -> None:
        config = context.config
        self._context = context
        self._population = population
        self._pool = pool
        self._tasks = GameTasks(config.games, config.seed)
        self._is_stopping = is_stopping
        self._explorers = Dispatcher(context, workers=config.explore.workers, slots=SLOTS)

    def fill(self, state: PopulationState) -> bool:
        """Play what is missing, then what is expected to tell most.

        In a league learners meet everybody a little, and members are compared by the way.
        """
        payoffs, is_league = self._population.payoffs, self._population.scheduler == "league"
        if is_league:
            missing = league_matches(state, payoffs.games)
        else:
            missing = [_refs(seats) for seats in missing_matches(state, payoffs.games)]
        if not self.play(state, missing):
            return False
        telling = plan_matches(state.table, payoffs.extra, joint=None if is_league else state.joint)
        return self.play(state, [_refs(seats) for seats in telling])

    def exploitability(self, state: PopulationState) -> dict[str, float]:
        """A lower bound, once there are answers; in a league nobody answers the meta-strategy."""
        bound = None if self._population.scheduler == "league" else gain_of_newest(state)
        return {} if bound is None else {"psro/nash_conv_bound": bound}

    def play(self, state: PopulationState, matches: Sequence[Seats]) -> bool:
        """Play a block and count it into table, book and ladder; returns False when the run was stopped before."""
        if not matches:
            return True
        played = self._play(state.jobs, matches)
        if not played:
            return False
        for episode in played:
            self._count(state, episode)
        state.jobs += 1
        return True

    def _play(self, job: int, matches: Sequence[Seats]) -> list[Episode]:
        context = self._context
        ((game, spec),) = context.specs.items()
        lineups = [(game, spread(spec, [Seat(policy=ref) for ref in sides])) for sides in matches]
        tasks = self._tasks.evaluation(job, EvaluationPlan(line_ups=lineups))
        self._explorers.submit(tasks)
        back: dict[int, Episode] = {}
        while len(back) < len(tasks) and not self._is_stopping():
            for event in context.supervisor.poll(POLL_S):
                for delivery in self._explorers.absorb(event):
                    context.telemetry.meters.add("league", len(delivery.batch.episodes))
                    back |= {episode.task.id: episode for episode in delivery.batch.episodes}
        return [back[task.id] for task in tasks] if len(back) == len(tasks) else []

    def _count(self, state: PopulationState, episode: Episode) -> None:
        if episode.error or not all(map(isfinite, episode.returns)):
            self._context.telemetry.event("match_failed", episode=episode.id, error=episode.error)
            return
        sides = self._context.specs[episode.task.game].sides
        refs = tuple(episode.task.seats[seats[0]].policy for seats in sides)
        returns = [sum(episode.returns[seat] for seat in seats) / len(seats) for seats in sides]
        labels = [label(ref) for ref in refs]
        known = state.table.populations.names
        if all(name in of for name, of in zip(labels, known, strict=True)):
            state.table.record(labels, returns)
        if len(refs) == 2:
            points = 0.5 + 0.5 * float(np.sign(returns[0] - returns[1]))
            state.book.add(book_name(state, refs[0]), book_name(state, refs[1]), points)
        for ref in refs:
            if ref.version:
                self._pool.add_snapshot(ref, state.steps)
        match = Match(id=episode.id, game=episode.task.game, seats=refs, returns=tuple(returns))
        self._pool.record(match, rated=len(set(refs)) > 1)


def book_name(state: PopulationState, ref: PolicyRef) -> str:
    """Under which name the book has a policy: a learner that goes on by its agent's, a member by its own."""
    recruit = state.roster.find(ref)
    return recruit.agent if recruit is not None and not recruit.frozen else label(ref)


def missing_matches(state: PopulationState, games: int) -> Iterator[tuple[str, ...]]:
    """Matches of every profile that has fewer than `games` and is not certain."""
    table = state.table
    counts, certain = table.games(), table.known_exactly()
    for profile in np.ndindex(*counts.shape):
        is_mirror = table.symmetric and len(set(profile)) == 1 and len(profile) > 1
        if not certain[profile] and not (is_mirror and table.constant_sum is not None):
            yield from [table.populations.seats(profile)] * max(0, games - int(counts[profile]))


def league_matches(state: PopulationState, per_learner: int) -> list[Seats]:
    """Matches of each learner as it is now against everybody whom it may meet, the least known first."""
    live = {agent: state.roster.newest(agent) for agent in state.roster.agents}
    members = [UNIFORM, *(recruit.ref for recruit in state.roster.frozen())]
    matches: list[Seats] = []
    for agent, newest in live.items():
        if newest is None:
            continue
        others = [*members, *(each.ref for name, each in live.items() if each is not None and name != agent)]
        rivals = [ref for ref in dict.fromkeys(others) if ref != newest.ref]
        games = [state.book.games(agent, book_name(state, ref)) for ref in rivals]
        for _ in range(per_learner // 2 if rivals else 0):  # one in each seat
            place = games.index(min(games))
            games[place] += 2.0
            matches += [(newest.ref, rivals[place]), (rivals[place], newest.ref)]
    return matches


def _refs(seats: Sequence[str]) -> Seats:
    return tuple(PolicyRef.parse(name) for name in seats)
