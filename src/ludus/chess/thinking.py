"""One position, thought about: by the policy alone, or by a PUCT search that can be stopped at any time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
from ludus_chess import Board, Search

from ludus.chess.evaluators import Evaluated, Evaluator, Floats

BATCH = 16
"""Leaves that are evaluated together; more think faster and less well."""
REPORT_S = 1.0
UNPROVEN = 2
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
    mate: int | None = None
    """Moves to the mate that `moves` end in, negative where the side to move is mated; None without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thoughts:
    """All moves, the best first."""

    ranked: tuple[Thought, ...]
    nodes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """When to stop: at so many nodes, at a time by `time.monotonic`, at a line or mate that is found, or when told."""

    nodes: int
    ends: float | None = None
    depth: int | None = None
    """Plies of the best line."""
    mate: int | None = None
    """Moves to mate the other side in."""
    only: Collection[str] = ()
    """Moves to choose from; empty for all."""

    def is_over(self) -> bool:
        """Whether the time is up."""
        return self.ends is not None and time.monotonic() >= self.ends

    def is_met(self, search: Search) -> bool:
        """Whether the line or the mate that was asked for is found."""
        if self.depth is not None and len(search.principal_variation(0)) >= self.depth:
            return True
        if self.mate is None or search.root(0).root_proven != 1:
            return False
        found = _mate(search.board(0), search.principal_variation(0))
        return found is not None and 0 < found <= self.mate


class KeptTree:
    """The tree of the last search. A position that follows from its root takes over the part below."""

    def __init__(self) -> None:
        self._search: Search | None = None
        self._start = ""
        self._moves: tuple[str, ...] = ()

    def forget(self) -> None:
        """The next search begins with an empty tree."""
        self._search = None

    def search(self, evaluator: Evaluator, board: Board, start: str, moves: Sequence[str]) -> Search:
        """A search of the board, which is `start` after `moves`."""
        search, known = self._search, len(self._moves)
        if search is None or search.pending or start != self._start or tuple(moves[:known]) != self._moves:
            search = new_search(evaluator, board)
        else:
            for move in moves[known:]:
                search.push(0, move)
        self._search, self._start, self._moves = search, start, tuple(moves)
        return search


def new_search(evaluator: Evaluator, board: Board) -> Search:
    """A search with an empty tree."""
    return Search([board], input_format=evaluator.input_format, history_fill=HISTORY_FILL)


def think(
    evaluator: Evaluator,
    board: Board,
    budget: Budget,
    stop: Callable[[], bool],
    report: Callable[[Thoughts], None],
    search: Search | None = None,
) -> Thoughts:
    """Think about a position that has legal moves. The first answer of the network is always waited for.

    `search` is one of this board that has begun already; its visits count.
    """
    began = time.monotonic()
    if budget.nodes <= 1:
        return _by_policy(evaluator, board, budget, began)
    if search is None:
        search = new_search(evaluator, board)
    reported = began
    while True:
        planes = search.collect(BATCH, visits=budget.nodes, leaves_per_tree=BATCH)
        if len(planes):
            search.apply(*answers(evaluator(planes)))
        if stop() or budget.is_over() or budget.is_met(search) or _is_done(search, budget):
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
        moves = line if line and line[0] == move else (move,)
        ranked.append(
            Thought(
                moves=moves,
                mate=_mate(board, moves) if abs(stats.proven[place]) == 1 else None,
                share=int(stats.visits[place]) / total,
                q=root_q if np.isnan(q) else q,
                d=root_d if np.isnan(d) else d,
            )
        )
    return Thoughts(ranked=_chosen(ranked, budget), nodes=stats.root_visits, seconds=time.monotonic() - began)


def _is_done(search: Search, budget: Budget) -> bool:
    """Whether more visits would change nothing, or are not wanted."""
    root = search.root(0)
    return search.is_over(0) or root.root_proven != UNPROVEN or root.root_visits >= budget.nodes


def _mate(board: Board, moves: Sequence[str]) -> int | None:
    """Moves to the mate that a line ends in, as UCI counts them."""
    end = board.copy()
    for move in moves:
        end.push(move)
    outcome = end.outcome()
    if outcome is None or outcome[0] == "1/2-1/2":
        return None
    return (len(moves) + 1) // 2 if len(moves) % 2 else -(len(moves) // 2)


def _chosen(ranked: list[Thought], budget: Budget) -> tuple[Thought, ...]:
    return tuple(each for each in ranked if not budget.only or each.moves[0] in budget.only) or tuple(ranked)
