"""Makes the sequence form of a game of OpenSpiel from its whole tree, and translates policies to OpenSpiel's tables.

Invariant: what comes out is the game or nothing. A game whose form would mean something else (more seats, other than
zero-sum, chance that cannot be listed, seats that forget) or that is too large is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyspiel

from ludus.errors import ConfigError
from ludus.games import open_spiel_loading as loading
from ludus.games.sequence_form import Floats, SeatTree, SequenceForm

MOST_HISTORIES = 1_000_000
REPORT_EVERY = 10_000
_SUM_TOLERANCE = 1e-9

Report = Callable[[int], None]
"""Told how many histories have been visited, now and then."""


def build_sequence_form(
    name: str, *, most_histories: int = MOST_HISTORIES, report: Report = lambda histories: None
) -> SequenceForm:
    """The sequence form of `name` or `name(parameter=value,...)`; games with simultaneous moves are played in turns.

    Raises:
        ConfigError: there is no such game, or it has no sequence form of this size.
    """
    builder = _TreeBuilder(name=name, most_histories=most_histories, report=report)
    builder.expand(load_turn_based(name))
    return builder.form()


def load_turn_based(name: str) -> Any:
    """The game in turns, as a `pyspiel.Game`, after a look at what its type says; the tree is not built.

    Raises:
        ConfigError: there is no such game, or it has no sequence form.
    """
    game = loading.load(name)
    if problem := _refusal(game):
        raise ConfigError(f"open_spiel:{name}: no exact solution: {problem}")
    if game.get_type().dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
        return pyspiel.convert_to_turn_based(game)
    return game


def _refusal(game: Any) -> str:
    kind, players = game.get_type(), game.num_players()
    if players != 2:
        return f"it has {players} players; two are needed"
    if kind.utility != pyspiel.GameType.Utility.ZERO_SUM:
        return "what one seat wins is not what the other loses; a zero-sum game is needed"
    if loading.samples_inside(game):
        return "it draws its own chance, so its tree cannot be walked"
    if not kind.provides_information_state_string and kind.dynamics != pyspiel.GameType.Dynamics.SIMULTANEOUS:
        return "it does not say what a seat knows (no information state string)"
    return ""


@dataclass(slots=True, kw_only=True)
class _Seat:
    """A seat's decisions in the order they are found."""

    numbers: dict[str, int] = field(default_factory=dict)
    parents: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    legal: list[list[int]] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    owners: list[int] = field(default_factory=lambda: [-1])
    """By sequence: the information set that it belongs to."""

    def find(self, knows: str, parent: int, legal: list[int]) -> int:
        """The first sequence of an information set; -1 when the seat has forgotten what it did, or what it may do."""
        number = self.numbers.get(knows)
        if number is None:
            number = self.numbers[knows] = len(self.parents)
            self.parents.append(parent)
            self.starts.append(len(self.owners))
            self.legal.append(legal)
            self.depths.append(self.depths[self.owners[parent]] + 1 if parent else 0)
            self.owners.extend([number] * len(legal))
        elif self.parents[number] != parent or self.legal[number] != legal:
            return -1
        return self.starts[number]

    def tree(self) -> tuple[SeatTree, Any]:
        """The decisions by level, and the new number of each sequence."""
        order = np.argsort(self.depths, kind="stable").astype(np.int64)
        names, widths = list(self.numbers), np.array([len(legal) for legal in self.legal], np.int64)
        starts = 1 + np.concatenate([[0], np.cumsum(widths[order])]).astype(np.int64)
        renumbered = np.zeros(len(self.owners), np.int64)
        for place, number in enumerate(order.tolist()):
            old = self.starts[number]
            renumbered[old : old + widths[number]] = np.arange(starts[place], starts[place + 1])
        depths = np.array(self.depths, np.int64)[order]
        edges = np.searchsorted(depths, np.arange(depths.max(initial=-1) + 2)).tolist()
        tree = SeatTree(
            information_sets=tuple(names[number] for number in order.tolist()),
            parents=renumbered[np.array(self.parents, np.int64)[order]],
            starts=starts[:-1],
            actions=np.array([-1, *(action for number in order.tolist() for action in self.legal[number])], np.int64),
            levels=tuple(pairwise(edges)),
        )
        return tree, renumbered


@dataclass(slots=True, kw_only=True)
class _TreeBuilder:
    """The tree as far as it has been expanded."""

    name: str
    most_histories: int
    report: Report
    histories: int = 0
    seats: tuple[_Seat, _Seat] = field(default_factory=lambda: (_Seat(), _Seat()))
    leaves: dict[tuple[int, int], float] = field(default_factory=dict)

    def expand(self, game: Any) -> None:
        """Visit the whole tree, depth first and in the order of the actions."""
        stack: list[tuple[Any, int, int, float]] = [(game.new_initial_state(), 0, 0, 1.0)]
        while stack:
            state, first, second, chance = stack.pop()
            self._count()
            player = state.current_player()
            if player >= 0:
                legal = state.legal_actions()
                own, knows = (second if player else first), state.information_state_string()
                start = self.seats[player].find(knows, own, legal)
                if start < 0:
                    raise self._refused(
                        f"seat {player} forgets: {knows!r} is reached by other decisions of its own, too"
                    )
                for place in reversed(range(len(legal))):
                    child, mine = state.child(legal[place]), start + place
                    stack.append((child, first, mine, chance) if player else (child, mine, second, chance))
            elif state.is_terminal():
                self._end(state.returns(), (first, second), chance)
            else:
                for action, probability in reversed(state.chance_outcomes()):
                    if probability > 0:
                        stack.append((state.child(action), first, second, chance * probability))

    def form(self) -> SequenceForm:
        """The arrays."""
        (first, first_numbers), (second, second_numbers) = (seat.tree() for seat in self.seats)
        pairs = np.array(list(self.leaves), np.int64).reshape(-1, 2)
        return SequenceForm(
            game=self.name,
            seats=(first, second),
            rows=first_numbers[pairs[:, 0]],
            columns=second_numbers[pairs[:, 1]],
            payoffs=np.array(list(self.leaves.values()), np.float64),
            histories=self.histories,
        )

    def _count(self) -> None:
        self.histories += 1
        if self.histories > self.most_histories:
            raise self._refused(f"its tree has more than {self.most_histories:,} histories")
        if self.histories % REPORT_EVERY == 0:
            self.report(self.histories)

    def _end(self, returns: list[float], pair: tuple[int, int], chance: float) -> None:
        if abs(returns[0] + returns[1]) > _SUM_TOLERANCE:
            raise self._refused(f"a game of it ended with {returns}, which is not zero-sum")
        self.leaves[pair] = self.leaves.get(pair, 0.0) + chance * returns[0]

    def _refused(self, problem: str) -> ConfigError:
        return ConfigError(f"open_spiel:{self.name}: no exact solution: {problem}")


def to_open_spiel(form: SequenceForm, policies: Sequence[Floats]) -> Any:
    """One `open_spiel.python.policy.TabularPolicy` for both seats; `policies` are `[sequences]` of each."""
    from open_spiel.python.policy import TabularPolicy

    table = TabularPolicy(load_turn_based(form.game))
    for tree, policy in zip(form.seats, policies, strict=True):
        rows = np.array([table.state_lookup[knows] for knows in tree.information_sets], np.int64)
        table.action_probability_array[rows] = 0.0
        table.action_probability_array[rows[tree.owners], tree.actions[1:]] = policy[1:]
    return table


def from_open_spiel(form: SequenceForm, seat: int, table: Any) -> Floats:
    """A seat's policy, `[sequences]`, out of a `TabularPolicy` of the same game.

    Raises:
        ConfigError: the table lacks an information set of the game.
    """
    tree = form.seats[seat]
    missing = [knows for knows in tree.information_sets if knows not in table.state_lookup]
    if missing:
        raise ConfigError(f"open_spiel:{form.game}: the policy does not know what to do at {missing[0]!r}")
    rows = np.array([table.state_lookup[knows] for knows in tree.information_sets], np.int64)
    policy = np.ones(tree.sequences)
    policy[1:] = table.action_probability_array[rows[tree.owners], tree.actions[1:]]
    return policy
