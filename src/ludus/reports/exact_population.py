"""A population that is computed, as a person reads it.

Read from the newest checkpoint that is whole, of a finished run or beside a live one; nothing is moved or written. Past
meta-strategies are solved again where that gives the same (small tables), else read from the versions that were
published on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.errors import StorageError
from ludus.league.exact.meta_game import SMALL, MetaStrategy, solve_meta_game
from ludus.league.payoffs.normal_form import Array, product, zero_sum_table
from ludus.policies import PolicyStore
from ludus.reports.population_standing import (
    EXACT,
    Exploitability,
    PairPayoffs,
    PopulationRow,
    PopulationStanding,
    Shares,
    alpha_rank_masses,
    known,
    ordered,
    payoffs_against,
)
from ludus.storage.checkpoints import newest_whole
from ludus.storage.run_directory import RunDirectory

PART = "population"
"""What the tensors of a population are called in a checkpoint."""
SOLVED_AGAIN = ("nash", "uniform")
"""Meta-solvers that take milliseconds."""
Tensors = Mapping[str, NDArray[Any]]


def standing_of_computed(run: RunDirectory, policy: str, meta_solver: str = "") -> PopulationStanding:
    """The population that a run last saved; `policy` is the name of what it publishes.

    Raises:
        StorageError: it has saved none that can be read.
    """
    tensors = newest_whole(run.checkpoints).tensors(PART)
    curve, payoffs = tensors["nash_conv"].tolist(), tensors["payoffs"]
    generation = len(curve) - 1
    if meta_solver in SOLVED_AGAIN and max(payoffs.shape) <= SMALL:
        past = [_solved_again(tensors, each, meta_solver) for each in range(generation)]
    else:
        past = [shares for shares in _published(run, policy) if shares.generation < generation]
    weights = [tensors[f"seat_{seat}/meta_strategy"] for seat in (0, 1)]
    first, second, nothing = _names(tensors, 0), _names(tensors, 1), np.zeros(payoffs.shape)
    return PopulationStanding(
        generation=generation,
        players=2,
        populations=(first, second),
        rows=ordered(_rows(tensors, zero_sum_table(payoffs), weights)),
        payoffs=PairPayoffs(
            rows=first,
            columns=second,
            mean=payoffs,
            standard_error=nothing,
            half_width=nothing,
            games=nothing.astype(np.int64),
            exact=np.ones(payoffs.shape, np.bool_),
        ),
        values=(value := float(weights[0] @ payoffs @ weights[1]), -value),
        history=(*past, _shares(tensors, generation)),
        exploitability=Exploitability(metric=EXACT, generations=tuple(range(len(curve))), values=tuple(curve)),
    )


def _rows(tensors: Tensors, table: Array, weights: Sequence[Array]) -> Iterator[PopulationRow]:
    joint = product(weights)
    masses = alpha_rank_masses(table, [range(size) for size in table.shape[1:]], shared=False)
    for seat in (0, 1):
        gains = payoffs_against(table, joint, seat).tolist()
        joined = tensors[f"seat_{seat}/joined"].tolist()
        for place, name in enumerate(_names(tensors, seat)):
            yield PopulationRow(
                policy=name,
                seat=seat,
                generation=joined[place],
                share=float(weights[seat][place]),
                payoff=known(gains[place]),
                alpha_rank=masses[seat].get(place),
            )


def _published(run: RunDirectory, policy: str) -> Iterator[Shares]:
    store = PolicyStore(run.policies)
    for ref in store.versions(policy):
        try:
            version = store.load(ref)
        except StorageError:
            continue  # damaged, or removed this moment by the run that is alive
        yield _shares(version.weights, version.step)


def _solved_again(tensors: Tensors, generation: int, meta_solver: str) -> Shares:
    """The meta-strategy after a generation: that of a small table is the same whenever it is solved."""
    there = [tensors[f"seat_{seat}/joined"] <= generation for seat in (0, 1)]
    if generation:
        meta = solve_meta_game(meta_solver, tensors["payoffs"][np.ix_(*there)], (there[0], there[1]))
    else:
        meta = MetaStrategy(np.ones(1), np.ones(1))
    part = {f"seat_{seat}/joined": tensors[f"seat_{seat}/joined"][there[seat]] for seat in (0, 1)}
    return _shares({**part, **{f"seat_{seat}/meta_strategy": meta[seat] for seat in (0, 1)}}, generation)


def _shares(tensors: Tensors, generation: int) -> Shares:
    weighed = (
        zip(_names(tensors, seat), tensors[f"seat_{seat}/meta_strategy"].tolist(), strict=True) for seat in (0, 1)
    )
    populations = tuple({name: share for name, share in pairs if share > 0} for pairs in weighed)
    return Shares(generation=generation, populations=populations)


def _names(tensors: Tensors, seat: int) -> tuple[str, ...]:
    """`g12` for the policy that joined in generation 12."""
    return tuple(f"g{generation}" for generation in tensors[f"seat_{seat}/joined"].tolist())
