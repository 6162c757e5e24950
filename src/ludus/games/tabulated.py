"""A small game's whole tree as arrays, for any number of seats: what the device plays, and what every seat can see.

Nodes are decisions and ends; chance is folded into the way from one to the next. The nodes that can follow an action
are *siblings*: they are adjacent, and one of them is drawn by the alias method (Walker 1977): draw a sibling evenly,
keep it with probability `accept`, else go to its `alias`. The first siblings, from node 0 on, are those that a game
begins with.

Invariant: every node has exactly one way from the beginning, so a node stands for a history and its rewards are those
of the way into it. `tabulating.py` makes these from OpenSpiel's games, `tabulated_env.py` plays them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Indices = NDArray[np.int32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tabulated:
    """The tree of a game with P seats, A actions and observations of shape S."""

    game: str
    """As OpenSpiel names it."""
    player: Indices
    """`[nodes]`: the seat that decides; 0 at ends."""
    is_end: Flags
    """`[nodes]`"""
    first: Indices
    """`[nodes, A]`: the first of the siblings that follow an action; 0 where it is not legal."""
    siblings: Indices
    """`[nodes]`: how many nodes can come about where this one did, itself included."""
    chance: NDArray[np.float64]
    """`[nodes]`: the probability of this one among its siblings."""
    accept: Floats
    """`[nodes]`: the probability to stay where one was drawn evenly."""
    alias: Indices
    """`[nodes]`: where to go else."""
    rewards: Floats
    """`[nodes, P]`: what each seat gets on the way here from the decision before. What is paid before the first
    decision comes with that decision's reward."""
    view: Indices
    """`[nodes]`: the row of `observations` and `legal` that the deciding seat sees; row 0 at ends."""
    observations: Floats
    """`[views, *S]`: different from each other in what is seen or what is legal. Row 0 is blank."""
    legal: Flags
    """`[views, A]`; all of row 0 is true."""
    information_sets: tuple[Mapping[str, int], ...]
    """By seat: what it knows at a decision, as the game says it, and its view there. Empty where the game does not
    say what a seat knows."""
    histories: int
    """Nodes of the tree that it was made from, chance included."""

    @property
    def players(self) -> int:
        """Seats of the game."""
        return int(self.rewards.shape[1])
