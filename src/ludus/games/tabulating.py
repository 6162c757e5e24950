"""Makes the arrays of `tabulated.py` by walking the whole tree of a game of OpenSpiel.

Invariant: what comes out is the game or nothing. Moves at the same time become moves in turn, in which a seat sees what
it sees on the host: nothing of what the others have chosen. A game that is too large, that draws its own chance or that
shows nothing to a network is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import pyspiel
from numpy.typing import NDArray

from ludus.errors import ConfigError
from ludus.games import open_spiel_loading as loading
from ludus.games.open_spiel_observing import Eye, open_eye
from ludus.games.tabulated import Tabulated

MOST_HISTORIES = 200_000
MOST_NUMBERS = 1 << 26
"""Of the largest array; 256 MiB."""

_Outcome = tuple[Any, float]
"""A `pyspiel.State` in which nobody or a seat is to act, and its probability."""


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
    eye, tensor = open_eye(game)
    walk = _Walk(name=name, game=game, shape=shape, most_histories=most_histories, eye=eye, tensor=tensor)
    walk.visit()
    return walk.arrays()


def _refused(name: str, problem: str) -> ConfigError:
    return ConfigError(f"open_spiel:{name}: cannot be played on the device: {problem}; write topology: split")


@dataclass(slots=True, kw_only=True)
class _Walk:
    """The tree as far as it has been walked. Lists are by node or by view."""

    name: str
    game: Any
    shape: tuple[int, ...]
    most_histories: int
    eye: Eye
    tensor: NDArray[np.float32]
    """What the eye refreshes, flat."""
    histories: int = 0
    player: list[int] = field(default_factory=list)
    is_end: list[bool] = field(default_factory=list)
    following: list[dict[int, int]] = field(default_factory=list)
    """By node: the first of the siblings after each action."""
    siblings: list[int] = field(default_factory=list)
    chance: list[float] = field(default_factory=list)
    rewards: list[NDArray[np.float64]] = field(default_factory=list)
    view: list[int] = field(default_factory=list)
    views: dict[tuple[bytes, tuple[int, ...]], int] = field(default_factory=dict)
    information_sets: list[dict[str, int]] = field(default_factory=list)

    def visit(self) -> None:
        """Walk the whole tree in the order of the actions, each time all that can follow an action at once."""
        self.information_sets = [{} for _ in range(self.game.num_players())]
        stack: list[tuple[int, Any, NDArray[np.float64]]] = []
        paid = np.zeros(self.game.num_players())
        root = self._in_turns().new_initial_state()
        # What the beginning pays belongs to the first decision: nobody has done anything for it yet.
        stack += [(node, state, paid) for node, state, _ in self._join(self._outcomes(root), None)]
        if any(self.is_end):
            raise _refused(self.name, "a game of it can be over before anybody decides")
        while stack:
            node, state, paid = stack.pop()
            for action in state.legal_actions():
                joined = self._join(self._outcomes(state.child(action)), paid)
                self.following[node][action] = joined[0][0]
                stack += [entry for entry in joined if not self.is_end[entry[0]]]

    def arrays(self) -> Tabulated:
        """The arrays."""
        nodes, actions = len(self.player), self.game.num_distinct_actions()
        self._check_size(nodes * actions)
        first = np.zeros((nodes, actions), np.int32)
        for node, following in enumerate(self.following):
            first[node, list(following)] = list(following.values())
        observations = np.zeros((len(self.views) + 1, *self.shape), np.float32)
        legal = np.zeros((len(self.views) + 1, actions), np.bool_)
        legal[0] = True
        for (seen, allowed), row in self.views.items():
            observations[row] = np.frombuffer(seen, np.float32).reshape(self.shape)
            legal[row, list(allowed)] = True
        siblings, chance = np.array(self.siblings, np.int32), np.array(self.chance, np.float64)
        accept, alias = _alias_tables(siblings, chance)
        return Tabulated(
            game=self.name,
            player=np.array(self.player, np.int32),
            is_end=np.array(self.is_end, np.bool_),
            first=first,
            siblings=siblings,
            chance=chance,
            accept=accept,
            alias=alias,
            rewards=np.array(self.rewards, np.float32),
            view=np.array(self.view, np.int32),
            observations=observations,
            legal=legal,
            information_sets=tuple(self.information_sets),
            histories=self.histories,
        )

    def _in_turns(self) -> Any:
        is_simultaneous = self.game.get_type().dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS
        return pyspiel.convert_to_turn_based(self.game) if is_simultaneous else self.game

    def _outcomes(self, state: Any) -> list[_Outcome]:
        """What chance can make of a state before somebody must act or the game is over."""
        found: list[_Outcome] = []
        stack = [(state, 1.0)]
        while stack:
            state, probability = stack.pop()
            self._count()
            if state.is_chance_node():
                drawn = [(state.child(action), probability * p) for action, p in state.chance_outcomes() if p > 0]
                stack += reversed(drawn)
            else:
                found.append((state, probability))
        return found

    def _join(
        self, outcomes: Sequence[_Outcome], paid: NDArray[np.float64] | None
    ) -> list[tuple[int, Any, NDArray[np.float64]]]:
        """Add siblings; returns the node, the state and what has been paid so far of each."""
        joined = []
        for state, probability in outcomes:
            returns = np.array(state.returns(), np.float64)
            is_end = state.is_terminal()
            joined.append((len(self.player), state, returns))
            self.player.append(0 if is_end else state.current_player())
            self.is_end.append(is_end)
            self.following.append({})
            self.siblings.append(len(outcomes))
            self.chance.append(probability)
            self.rewards.append(np.zeros_like(returns) if paid is None else returns - paid)
            self.view.append(0 if is_end else self._look(state))
        return joined

    def _look(self, state: Any) -> int:
        seat, kind = state.current_player(), self.game.get_type()
        is_simultaneous = kind.dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS
        self.eye.set_from(state.simultaneous_game_state() if is_simultaneous else state, seat)
        view = self.views.setdefault((self.tensor.tobytes(), tuple(state.legal_actions())), len(self.views) + 1)
        self._check_size((view + 1) * prod(self.shape))
        if kind.provides_information_state_string:
            known = self.information_sets[seat].setdefault(state.information_state_string(), view)
            if known != view:
                raise _refused(self.name, f"seat {seat} sees different things where it knows the same")
        return view

    def _count(self) -> None:
        self.histories += 1
        if self.histories > self.most_histories:
            raise _refused(self.name, f"its tree has more than {self.most_histories:,} histories")

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
