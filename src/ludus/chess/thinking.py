"""One position, thought about: by the policy alone, or by a PUCT search that can be stopped at any time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
from ludus_chess import Board, Search

from ludus.chess.evaluators import Evaluated, Evaluator, Floats

BATCH = 16
"""Leaves that are evaluated together; more think faster and less well."""
REPORT_S = 1.0
HISTORY_FILL = "fen_only"
"""As lc0 plays: a position that was set up is its own history, the usual start has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thought:
    """One move of a position and what it is worth to the side to move."""

    moves: tuple[str, ...]
    share: float
    """Of the visits, or the policy's probability."""
    q: float
    d: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Thoughts:
    """All moves, the best first."""

    ranked: tuple[Thought, ...]
    nodes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """When to stop: at so many nodes, or at a time by `time.monotonic`, or when told."""

    nodes: int
    ends: float | None = None
    only: Collection[str] = ()
    """Moves to choose from; empty for all."""

    def is_over(self) -> bool:
        """Whether the time is up."""
        return self.ends is not None and time.monotonic() >= self.ends


def think(
    evaluator: Evaluator, board: Board, budget: Budget, stop: Callable[[], bool], report: Callable[[Thoughts], None]
) -> Thoughts:
    """Think about a position that has legal moves. The first answer of the network is always waited for."""
    began = time.monotonic()
    if budget.nodes <= 1:
        return _by_policy(evaluator, board, budget, began)
    search = Search([board], input_format=evaluator.input_format, history_fill=HISTORY_FILL)
    reported = began
    while True:
        planes = search.collect(BATCH, visits=budget.nodes, leaves_per_tree=BATCH)
        if len(planes) == 0:
            break
        search.apply(*answers(evaluator(planes)))
        if stop() or budget.is_over():
            break
        if time.monotonic() - reported >= REPORT_S:
            reported = time.monotonic()
            report(_by_search(search, board, budget, began))
    return _by_search(search, board, budget, began)


def answers(found: Evaluated) -> tuple[Floats, Floats, Floats | None]:
    """What `Search.apply` wants."""
    return found.logits, found.values, found.moves_left


def _by_policy(evaluator: Evaluator, board: Board, budget: Budget, began: float) -> Thoughts:
    planes = board.encode(input_format=evaluator.input_format, history_fill=HISTORY_FILL)[None]
    found = evaluator(planes)
    legal = board.legal_indices().astype(np.int64)
    logits = found.logits[0, legal].astype(np.float64)
    shares = np.exp(logits - logits.max())
    shares /= shares.sum()
    value = found.values[0]
    q, d = (float(value[0] - value[2]), float(value[1])) if np.ndim(value) else (float(value), 0.0)
    ranked = [
        Thought(moves=(board.move_of(int(index)),), share=float(share), q=q, d=d)
        for index, share in sorted(zip(legal, shares, strict=True), key=lambda pair: -pair[1])
    ]
    return Thoughts(ranked=_chosen(ranked, budget), nodes=1, seconds=time.monotonic() - began)


def _by_search(search: Search, board: Board, budget: Budget, began: float) -> Thoughts:
    stats = search.root(0)
    root_q, root_d, _ = stats.root
    order = np.lexsort((-stats.priors, -stats.visits))
    order = np.concatenate([[stats.best], order[order != stats.best]])
    total = max(int(stats.visits.sum()), 1)
    line = tuple(search.principal_variation(0))
    ranked = []
    for place in order:
        move = board.move_of(int(stats.indices[place]))
        q, d = float(stats.q[place]), float(stats.d[place])
        ranked.append(
            Thought(
                moves=line if line and line[0] == move else (move,),
                share=int(stats.visits[place]) / total,
                q=root_q if np.isnan(q) else q,
                d=root_d if np.isnan(d) else d,
            )
        )
    return Thoughts(ranked=_chosen(ranked, budget), nodes=stats.root_visits, seconds=time.monotonic() - began)


def _chosen(ranked: list[Thought], budget: Budget) -> tuple[Thought, ...]:
    return tuple(each for each in ranked if not budget.only or each.moves[0] in budget.only) or tuple(ranked)
