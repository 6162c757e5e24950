"""Decisions of networks that search before they move, in games that offer such a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ludus.config import RunConfig
from ludus.errors import DamagedPolicy, PolicyError, RolloutError, StorageError, rollout_error
from ludus.explore.runners.slot import Slot
from ludus.games.protocol import Game
from ludus.policies import PolicyStore
from ludus.records import PolicyRef
from ludus.records.uniforms import uniforms
from ludus.runtime import Pulse


class NetworkSearch(Protocol):
    """A search with the networks of a run."""

    def decides(self, nodes: int) -> bool:
        """Whether seats with so many nodes are decided by it."""
        ...

    def choose(
        self,
        ref: PolicyRef,
        positions: Sequence[Any],
        *,
        nodes: int,
        uniform: NDArray[np.float32],
        greedy: NDArray[np.bool_],
        tick: Callable[[], None] = ...,
    ) -> list[int]:
        """Choose for the seat to move in each position; a choice must not depend on the others."""
        ...

    def think(self, ref: PolicyRef, position: Any, *, nodes: int) -> tuple[dict[int, float], float]:
        """Shares of the legal actions, and the value for the seat to move."""
        ...


@runtime_checkable
class SearchedGame(Protocol):
    """A game in turns whose networks can search."""

    def network_search(self, store: PolicyStore, config: RunConfig) -> NetworkSearch:
        """Make the search for the policies of a run."""
        ...


def find_search(game: object, store: PolicyStore, config: RunConfig) -> NetworkSearch | None:
    """The search for the policies of a run at a game; None where it has none."""
    return game.network_search(store, config) if isinstance(game, SearchedGame) else None


class SearchDecisions:
    """Asks the searches of games; a game that fails meanwhile has the error in its slot."""

    def __init__(self, store: PolicyStore, config: RunConfig, pulse: Pulse) -> None:
        self._store = store
        self._config = config
        self._pulse = pulse
        self._searches: dict[str, NetworkSearch | None] = {}

    def decide(self, ref: PolicyRef, nodes: int, rows: Sequence[tuple[Slot, int]]) -> bool:
        """Put the decisions of a policy version into its games' slots; False where no search decides for it."""
        search = self._search(rows[0][0].game)
        if search is None or not search.decides(nodes):
            return False
        uniform = uniforms(
            np.array([slot.seed for slot, _ in rows], np.uint64),
            np.array([slot.ply for slot, _ in rows], np.uint64),
            np.array([seat for _, seat in rows], np.uint64),
        )
        greedy = np.array([slot.seats[seat].who.greedy for slot, seat in rows], np.bool_)
        positions = [slot.position for slot, _ in rows]
        try:
            actions = search.choose(ref, positions, nodes=nodes, uniform=uniform, greedy=greedy, tick=self._pulse.tick)
        except (StorageError, OSError) as error:
            _fail(rows, DamagedPolicy(f"{ref} cannot be loaded: {error}"))
        except Exception as error:  # whatever a search may raise
            _fail(rows, rollout_error(PolicyError, f"{ref} with {nodes} nodes", error))
        else:
            for (slot, seat), action in zip(rows, actions, strict=True):
                slot.moves[seat] = action
        return True

    def _search(self, game: Game) -> NetworkSearch | None:
        key = game.spec.key
        if key not in self._searches:
            self._searches[key] = find_search(game, self._store, self._config)
        return self._searches[key]


def _fail(rows: Sequence[tuple[Slot, int]], error: RolloutError) -> None:
    for slot, _ in rows:
        slot.error = error
