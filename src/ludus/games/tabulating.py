"""Makes the arrays of `tabulated.py` from the whole tree of a game of OpenSpiel.

Invariant: what comes out is the game or nothing. Moves at the same time become moves in turn, in which a seat sees what
it sees on the host: nothing of what the others have chosen. A game that is too large, that draws its own chance or that
shows nothing to a network is refused with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import pyspiel
from numpy.typing import NDArray

from ludus.errors import ConfigError
from ludus.games import open_spiel_loading as loading
from ludus.games.tabulated import Tabulated

MOST_HISTORIES = 200_000
MOST_NUMBERS = 1 << 26
"""Of the largest array; 256 MiB."""


@lru_cache(maxsize=2)
def tabulate(name: str, *, most_histories: int = MOST_HISTORIES) -> Tabulated:
    """The tree of `name` or `name(parameter=value,...)`; the last two are kept.

    Raises:
        ConfigError: there is no such game, or it cannot be tabulated.
    """
    game = loading.load(name)
    shape = loading.tensor_shape(game)
    if loading.samples_inside(game):
        raise _refused(name, "it draws its own chance, so its tree cannot be walked")
    if not shape:
        raise _refused(name, "it has no observation tensor for a network to see")
    builder = _TreeBuilder(name, game, shape, most_histories)
    builder.expand()
    return builder.arrays()


def _refused(name: str, problem: str) -> ConfigError:
    return ConfigError(f"open_spiel:{name}: cannot be played on the device: {problem}; write topology: split")


@dataclass(slots=True, kw_only=True)
class _Node:
    """One decision or end; the columns of `Tabulated`."""

    player: int
    is_end: bool
    siblings: int
    chance: float
    rewards: NDArray[np.float64]
    view: int
    following: dict[int, int] = field(default_factory=dict)
    """The first of the siblings after each action."""


class _TreeBuilder:
    """The tree as far as it has been expanded."""

    def __init__(self, name: str, game: Any, shape: tuple[int, ...], most_histories: int) -> None:
        self.name, self.game, self.shape, self.most_histories = name, game, shape, most_histories
        self.is_simultaneous = game.get_type().dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS
        self.look, self.tensor = loading.make_observer(game)
        self.histories = 0
        self.nodes: list[_Node] = []
        self.views: dict[tuple[bytes, tuple[int, ...]], int] = {}
        self.information_sets: list[dict[str, int]] = [{} for _ in range(game.num_players())]

    def expand(self) -> None:
        """Visit the whole tree in the order of the actions, each time all that can follow an action at once."""
        game = pyspiel.convert_to_turn_based(self.game) if self.is_simultaneous else self.game
        # What the beginning pays belongs to the first decision: nobody has done anything for it yet.
        paid = np.zeros(self.game.num_players())
        stack = [(node, state, paid) for node, state, _ in self._join(game.new_initial_state(), None)]
        if any(node.is_end for node in self.nodes):
            raise _refused(self.name, "a game of it can be over before anybody decides")
        while stack:
            node, state, paid = stack.pop()
            for action in state.legal_actions():
                joined = self._join(state.child(action), paid)
                self.nodes[node].following[action] = joined[0][0]
                stack += [entry for entry in joined if not self.nodes[entry[0]].is_end]

    def arrays(self) -> Tabulated:
        """The arrays."""
        nodes, actions = self.nodes, self.game.num_distinct_actions()
        self._check_size(len(nodes) * actions)
        first = np.zeros((len(nodes), actions), np.int32)
        for number, node in enumerate(nodes):
            first[number, list(node.following)] = list(node.following.values())
        observations = np.zeros((len(self.views) + 1, *self.shape), np.float32)
        legal = np.zeros((len(self.views) + 1, actions), np.bool_)
        legal[0] = True
        for (seen, allowed), row in self.views.items():
            observations[row] = np.frombuffer(seen, np.float32).reshape(self.shape)
            legal[row, list(allowed)] = True
        siblings = np.array([node.siblings for node in nodes], np.int32)
        chance = np.array([node.chance for node in nodes], np.float64)
        accept, alias = _alias_tables(siblings, chance)
        return Tabulated(
            game=self.name,
            player=np.array([node.player for node in nodes], np.int32),
            is_end=np.array([node.is_end for node in nodes], np.bool_),
            first=first,
            siblings=siblings,
            chance=chance,
            accept=accept,
            alias=alias,
            rewards=np.array([node.rewards for node in nodes], np.float32),
            view=np.array([node.view for node in nodes], np.int32),
            observations=observations,
            legal=legal,
            information_sets=tuple(self.information_sets),
            histories=self.histories,
        )

    def _outcomes(self, state: Any) -> list[tuple[Any, float]]:
        """What chance can make of a state before somebody must act or the game is over, with probabilities."""
        found: list[tuple[Any, float]] = []
        stack = [(state, 1.0)]
        while stack:
            state, probability = stack.pop()
            self.histories += 1
            if self.histories > self.most_histories:
                raise _refused(self.name, f"its tree has more than {self.most_histories:,} histories")
            if state.is_chance_node():
                drawn = [(state.child(action), probability * p) for action, p in state.chance_outcomes() if p > 0]
                stack += reversed(drawn)
            else:
                found.append((state, probability))
        return found

    def _join(self, state: Any, paid: NDArray[np.float64] | None) -> list[tuple[int, Any, NDArray[np.float64]]]:
        """Add what can come of a state as siblings; returns the node, the state and what has been paid of each."""
        joined = []
        outcomes = self._outcomes(state)
        for outcome, probability in outcomes:
            returns, is_end = np.array(outcome.returns(), np.float64), outcome.is_terminal()
            joined.append((len(self.nodes), outcome, returns))
            self.nodes.append(
                _Node(
                    player=0 if is_end else outcome.current_player(),
                    is_end=is_end,
                    siblings=len(outcomes),
                    chance=probability,
                    rewards=np.zeros_like(returns) if paid is None else returns - paid,
                    view=0 if is_end else self._view(outcome),
                )
            )
        return joined

    def _view(self, state: Any) -> int:
        seat = state.current_player()
        self.look(state.simultaneous_game_state() if self.is_simultaneous else state, seat)
        view = self.views.setdefault((self.tensor.tobytes(), tuple(state.legal_actions())), len(self.views) + 1)
        self._check_size((view + 1) * prod(self.shape))
        if self.game.get_type().provides_information_state_string:
            known = self.information_sets[seat].setdefault(state.information_state_string(), view)
            if known != view:
                raise _refused(self.name, f"seat {seat} sees different things where it knows the same")
        return view

    def _check_size(self, numbers: int) -> None:
        if numbers > MOST_NUMBERS:
            raise _refused(self.name, f"a table of it would hold more than {MOST_NUMBERS:,} numbers")


def _alias_tables(
    siblings: NDArray[np.int32], chance: NDArray[np.float64]
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """`accept` and `alias` of every node, by Vose's construction."""
    accept, alias = np.ones(len(chance), np.float32), np.arange(len(chance), dtype=np.int32)
    start = 0
    while start < len(chance):
        width = int(siblings[start])
        scaled = (chance[start : start + width] * (width / chance[start : start + width].sum())).tolist()
        small = [place for place, share in enumerate(scaled) if share < 1]
        large = [place for place, share in enumerate(scaled) if share >= 1]
        while small and large:
            place, donor = small.pop(), large.pop()
            accept[start + place], alias[start + place] = scaled[place], start + donor
            scaled[donor] -= 1 - scaled[place]
            (small if scaled[donor] < 1 else large).append(donor)
        start += width
    return accept, alias
