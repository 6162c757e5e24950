"""pgx games that OpenSpiel has too, move for move: OpenSpiel's players can then sit at a pgx game.

Invariant: in lock-step play the twins agree on who moves, what is legal, when the game ends and what it pays, but for
what a comment in `TWINS` says, where bots see OpenSpiel's side of it and results are pgx's; the tests prove it by
random play of every entry. Add a twin with one entry in `TWINS`.

Not twins: backgammon and 2048 (pgx moves one die at a time, or orders chance differently), chess and shogi (other
action numbers).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


def _no_cards(state: Any, order: Sequence[int]) -> tuple[int, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """How a pgx game corresponds to one of OpenSpiel's."""

    open_spiel_name: str
    actions: tuple[int, ...] = ()
    """OpenSpiel's number of each pgx action; empty when they are the same."""
    cards: Callable[[Any, Sequence[int]], tuple[int, ...]] = _no_cards
    """Chance outcomes of OpenSpiel's game in order, read from the pgx state and its players by seat."""
    has_closing_passes: bool = False
    """Whether pgx wants passes after OpenSpiel's game is already over."""

    def to_open_spiel(self, action: int) -> int:
        """OpenSpiel's number of a pgx action."""
        return self.actions[action] if self.actions else action

    def from_open_spiel(self, action: int) -> int:
        """pgx's number of an OpenSpiel action."""
        return self.actions.index(action) if self.actions else action


def _kuhn_cards(state: Any, order: Sequence[int]) -> tuple[int, ...]:
    cards = np.asarray(state._cards)
    return tuple(int(cards[player]) for player in order)


def _leduc_cards(state: Any, order: Sequence[int]) -> tuple[int, ...]:
    cards = np.asarray(state._cards)
    ranks = [int(cards[player]) for player in order] + [int(cards[2])]
    # pgx deals ranks, OpenSpiel cards of two suits: the second card of a rank is of the other suit.
    return tuple(2 * rank + ranks[:place].count(rank) for place, rank in enumerate(ranks))


TWINS = {
    "connect_four": Twin(open_spiel_name="connect_four"),
    # Whoever repeats a position loses in pgx; in OpenSpiel the game is drawn.
    "go_9x9": Twin(open_spiel_name="go(board_size=9,komi=7.5)"),
    "go_19x19": Twin(open_spiel_name="go(board_size=19,komi=7.5)"),
    "hex": Twin(open_spiel_name="hex(board_size=11,swap=True)"),
    "kuhn_poker": Twin(open_spiel_name="kuhn_poker", actions=(1, 0), cards=_kuhn_cards),
    "leduc_holdem": Twin(open_spiel_name="leduc_poker", actions=(1, 2, 0), cards=_leduc_cards),
    # pgx goes on until two passes when neither side can move; OpenSpiel stops at once.
    "othello": Twin(open_spiel_name="othello", has_closing_passes=True),
    "tic_tac_toe": Twin(open_spiel_name="tic_tac_toe"),
}


class TwinState:
    """OpenSpiel's state beside a pgx game, brought up to date when it is asked for."""

    __slots__ = ("_cards", "_plies", "_twin", "state")

    def __init__(self, twin: Twin, cards: Sequence[int]) -> None:
        import pyspiel

        self._twin = twin
        self._cards: Iterator[int] = iter(cards)
        self._plies = 0
        self.state: Any = pyspiel.load_game(twin.open_spiel_name).new_initial_state()
        """The `pyspiel.State`; copy it before changing it."""
        self._deal()

    def follow(self, actions: Sequence[int]) -> None:
        """Make those of pgx's moves, all so far, that have not been made in OpenSpiel's game."""
        for action in actions[self._plies :]:
            if not (self._twin.has_closing_passes and self.state.is_terminal()):
                self.state.apply_action(self._twin.to_open_spiel(action))
            self._deal()
        self._plies = len(actions)

    def _deal(self) -> None:
        while self.state.is_chance_node():
            self.state.apply_action(next(self._cards))
