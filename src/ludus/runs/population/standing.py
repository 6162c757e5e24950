"""A population that learns, as a person reads it.

Read from the newest checkpoint that is whole and from the catalog's ladder, of a finished run or beside a live one;
nothing is moved or written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ludus.config import RunConfig
from ludus.league.matchmaking.population import label
from ludus.league.payoffs.normal_form import Array, expected_payoffs
from ludus.reports.ladder import LadderRow, standing_of_run
from ludus.reports.population_standing import (
    BOUND,
    EXACT,
    Exploitability,
    PairPayoffs,
    PopulationRow,
    PopulationStanding,
    Shares,
    alpha_rank_masses,
    elo_by_population,
    known,
    ordered,
    payoffs_against,
    progress_of_halves,
)
from ludus.runs.population.population_state import PopulationState
from ludus.storage.catalog import Catalog
from ludus.storage.checkpoints import newest_whole
from ludus.storage.run_directory import RunDirectory


def standing_of_population(run: RunDirectory, config: RunConfig) -> PopulationStanding:
    """The population that a run last saved, computed or learnt.

    Raises:
        StorageError: it has saved none that can be read.
    """
    if config.population is not None and config.population.oracle == "exact":
        from ludus.reports.exact_population import standing_of_computed

        solver = "" if config.population.meta_options else config.population.meta_solver
        return standing_of_computed(run, config.policy.name, solver)
    state = PopulationState.from_json(newest_whole(run.checkpoints).state["population"])
    with Catalog.open_readonly(run.catalog) as catalog:
        ladder = standing_of_run(catalog).rows
    return standing_of_state(state, ladder)


def standing_of_state(state: PopulationState, ladder: Sequence[LadderRow] = ()) -> PopulationStanding:
    """The standing of a population at one moment."""
    table, game = state.table.mean(), state.table
    joint = _grown(state.joint, table.shape[1:])
    names = game.populations.names
    rated = {row.policy: row for row in ladder if row.rank is not None}
    return PopulationStanding(
        generation=state.generation,
        players=game.players,
        populations=names[:1] if game.symmetric else names,
        rows=ordered(_Rows(state, table, joint, rated)),
        payoffs=_pairs(state, table),
        values=tuple(expected_payoffs(np.nan_to_num(table), joint).tolist()),
        history=tuple(
            Shares(generation=entry["generation"], populations=tuple(dict(shares) for shares in entry["shares"]))
            for entry in state.history
        ),
        exploitability=_exploitability(state),
        agents=state.roster.agents,
        lineage=tuple(state.roster),
        relative_performance=_progress(state, table),
    )


class _Rows:
    """A row for each policy of each population, and for who has come and is not in the table (yet)."""

    def __init__(self, state: PopulationState, table: Array, joint: Array, rated: Mapping[str, LadderRow]) -> None:
        self._state, self._rated = state, rated
        self._recruits = {label(recruit.ref): recruit for recruit in state.roster}
        places = state.frozen_places()
        shared = state.table.symmetric
        self._masses = alpha_rank_masses(table, places, shared=shared)
        self._elo = elo_by_population(state.table)
        count = 1 if shared else state.table.players
        self._payoffs = [payoffs_against(table, joint, player).tolist() for player in range(count)]
        self._shares = [joint.sum(axis=tuple(a for a in range(joint.ndim) if a != player)) for player in range(count)]

    def __iter__(self) -> Iterator[PopulationRow]:
        game = self._state.table
        listed: set[str] = set()
        for population in range(len(self._payoffs)):
            seat = None if game.symmetric else population
            for place, name in enumerate(game.populations.names[population]):
                listed.add(name)
                yield self._row(name, seat, population, place)
        for name, recruit in self._recruits.items():
            if name not in listed and (recruit.frozen or self._state.roster.newest(recruit.agent) == recruit):
                yield self._row(name, None, 0, -1)

    def _row(self, name: str, seat: int | None, population: int, place: int) -> PopulationRow:
        recruit, rated = self._recruits.get(name), self._rated.get(name)
        elo, error = self._elo[population].get(place, (None, None))
        if elo is None and rated is not None:
            elo, error = rated.elo, rated.elo_error
        is_listed, is_member = place >= 0, recruit is None or recruit.frozen
        return PopulationRow(
            policy=name,
            seat=seat,
            generation=0 if recruit is None else recruit.generation,
            frozen=is_member,
            steps=0 if recruit is None else recruit.steps,
            share=float(self._shares[population][place]) if is_listed and is_member else None,
            payoff=known(self._payoffs[population][place]) if is_listed else None,
            alpha_rank=self._masses[population].get(place),
            elo=elo,
            elo_error=error,
            mu=None if rated is None else rated.mu,
            sigma=None if rated is None else rated.sigma,
            games=0 if rated is None else rated.games,
            wins=0 if rated is None else rated.wins,
            draws=0 if rated is None else rated.draws,
            losses=0 if rated is None else rated.losses,
        )


def _pairs(state: PopulationState, table: Array) -> PairPayoffs | None:
    game = state.table
    if game.players != 2:
        return None
    names, games = game.populations.names, game.games()
    return PairPayoffs(
        rows=names[0],
        columns=names[1],
        mean=table[0],
        standard_error=game.standard_error()[0],
        half_width=game.half_width()[0],
        games=games + games.T if game.symmetric else games,
        exact=game.known_exactly(),
    )


def _exploitability(state: PopulationState) -> Exploitability:
    """Exact values if there are any, else bounds, of the generations that have them."""
    measured = {entry["generation"]: entry["metrics"] for entry in state.history}
    metric = EXACT if any(EXACT in metrics for metrics in measured.values()) else BOUND
    values = {generation: metrics[metric] for generation, metrics in measured.items() if metric in metrics}
    return Exploitability(metric=metric, generations=tuple(values), values=tuple(values.values()))


def _progress(state: PopulationState, table: Array) -> float | None:
    if state.table.players != 2 or not state.table.symmetric or state.table.constant_sum != 0.0:
        return None
    joined = {recruit.ref: recruit.generation for recruit in state.roster}
    members = {place: joined.get(state.seats[0][place], 0) for place in state.frozen_places()[0]}
    return progress_of_halves(table[0], members)


def _grown(joint: Array, shape: tuple[int, ...]) -> Array:
    """The meta-strategy over all policies of the table: those that have joined since have no share yet."""
    whole = np.zeros(shape)
    whole[tuple(slice(size) for size in joint.shape)] = joint
    return whole
