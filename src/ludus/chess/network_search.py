"""Networks that search before they move: one PUCT search over all games that wait for the same network.

Invariant: a move depends on the game, the network, the number of nodes and the random number alone, never on the games
that are searched beside it. Trees begin empty, each gives as many leaves in a round as it would alone, and a network is
always asked in batches of one size.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from ludus_chess import RootStats, Search
from numpy.typing import NDArray

from ludus.chess.evaluators import Evaluator
from ludus.chess.thinking import answers
from ludus.policies import PolicyStore
from ludus.records import PolicyRef

if TYPE_CHECKING:
    from ludus.chess.game import ChessPosition

LEAVES_PER_TREE = 4
"""Of one game in one round: few, because there are many games."""
BATCH = 64
MOST_LOADED = 4
PLAIN_FORMAT = 1
"""The planes that positions of the game write themselves."""


class ChessNetworkSearch:
    """Searches with the networks of a run, which see planes of the run's input format."""

    def __init__(self, store: PolicyStore, *, input_format: int) -> None:
        self._store = store
        self._input_format = input_format
        self._loaded: OrderedDict[PolicyRef, Evaluator] = OrderedDict()

    def decides(self, nodes: int) -> bool:
        """Whether seats with so many nodes are to be decided here: they search, or they need other planes."""
        return nodes > 1 or self._input_format != PLAIN_FORMAT

    def choose(
        self,
        ref: PolicyRef,
        positions: Sequence[ChessPosition],
        *,
        nodes: int,
        uniform: NDArray[np.float32],
        greedy: NDArray[np.bool_],
        tick: Callable[[], None] = lambda: None,
    ) -> list[int]:
        """Choose a legal action for the side to move in each position.

        Args:
            nodes: Positions that each search evaluates; with 1 the policy alone decides.
            uniform: `[n]` in [0, 1), what draws from the shares of visits where `greedy` `[n]` is not set.
            tick: Is called after each batch.

        Raises:
            ValueError: the network's answer is not finite.
        """
        search = self._search(ref, positions, nodes, tick)
        return [
            _pick(search.root(place), float(draw), greedy=bool(surely))
            for place, (draw, surely) in enumerate(zip(uniform, greedy, strict=True))
        ]

    def think(self, ref: PolicyRef, position: ChessPosition, *, nodes: int) -> tuple[dict[int, float], float]:
        """Shares of the legal actions, of the visits or of the policy, and the value for the side to move."""
        stats = self._search(ref, [position], nodes, lambda: None).root(0)
        return dict(zip(stats.indices.tolist(), _shares(stats).tolist(), strict=True)), float(stats.root[0])

    def _search(
        self, ref: PolicyRef, positions: Sequence[ChessPosition], nodes: int, tick: Callable[[], None]
    ) -> Search:
        evaluator = self._load(ref)
        search = Search([position.board for position in positions], input_format=self._input_format)
        leaves = LEAVES_PER_TREE * len(positions)
        while len(planes := search.collect(leaves, visits=nodes, leaves_per_tree=LEAVES_PER_TREE)):
            search.apply(*answers(evaluator(planes)))
            tick()
        return search

    def _load(self, ref: PolicyRef) -> Evaluator:
        if ref not in self._loaded:
            policy = self._store.load(ref)
            self._loaded[ref] = Evaluator(
                policy.shape, policy.weights, name=str(ref), input_format=self._input_format, sizes=(BATCH,)
            )
        self._loaded.move_to_end(ref)
        while len(self._loaded) > MOST_LOADED:
            self._loaded.popitem(last=False)
        return self._loaded[ref]


def _pick(stats: RootStats, draw: float, *, greedy: bool) -> int:
    if greedy:
        return int(stats.indices[stats.best])
    bounds = np.cumsum(_shares(stats))
    place = int(np.searchsorted(bounds, draw * bounds[-1], side="right"))
    return int(stats.indices[min(place, len(bounds) - 1)])


def _shares(stats: RootStats) -> NDArray[np.float64]:
    """Of the visits below the root; of the policy, where there are none."""
    counts: NDArray[np.float64] = (stats.visits if stats.visits.sum() else stats.priors).astype(np.float64)
    return counts / float(counts.sum())
