"""OpenSpiel's games as ludus games: sequential, simultaneous, with chance, for any number of players.

Invariant: a `pyspiel.State` is never given an action that is not legal in it, so a refused move leaves the position
as it was. Seats are OpenSpiel's players. The runner calls a position for every ply of every game: what is asked each
ply is computed once and kept until the next move. Where information is hidden, a seat is shown its information state,
all that it has seen and done (`open_spiel_loading.shows_information_state`); elsewhere an observation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import index
from random import Random
from typing import Any

import numpy as np
import pyspiel
from numpy.typing import NDArray

from ludus.errors import EnvError
from ludus.games import open_spiel_loading as loading
from ludus.games.protocol import GameSpec

CHANCE = int(pyspiel.PlayerId.CHANCE)
SIMULTANEOUS = int(pyspiel.PlayerId.SIMULTANEOUS)
NOBODY = -100
"""Player to move when seats act together or nobody acts."""

PARTNERSHIPS = {"bridge": (0, 1, 0, 1), "euchre": (0, 1, 0, 1), "spades": (0, 1, 0, 1), "tiny_bridge_4p": (0, 1, 0, 1)}
PAYS_EARLY = frozenset({"repeated_leduc_poker"})
"""Games that pay before the end although their type says that they do not."""


class OpenSpielGame:
    """A game of OpenSpiel, by its name with parameters: `leduc_poker(players=3)`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._game = loading.load(name)
        self._is_sampled = loading.samples_inside(self._game)
        self.spec = _describe(name, self._game)
        self._seats = tuple((seat,) for seat in range(self.spec.players))
        self._observer: loading.Observer | None = None

    def start(self, seed: int) -> OpenSpielPosition:
        """Begin a game; the seed decides all chance."""
        game = loading.load_seeded(self._name, seed) if self._is_sampled else self._game
        return OpenSpielPosition(game, self.spec, self._seats, seed, self.observer)

    def observer(self, game: Any) -> loading.Observer:
        """The observer of positions of `game`, a pyspiel.Game; shared by all of them unless it samples inside."""
        if self._is_sampled:
            return loading.make_observer(game)
        if self._observer is None:
            self._observer = loading.make_observer(game)
        return self._observer


class OpenSpielPosition:
    """One game of OpenSpiel in progress."""

    __slots__ = (
        "_acting",
        "_chance",
        "_find_observer",
        "_game",
        "_legal",
        "_look",
        "_player",
        "_seats",
        "_seed",
        "_spec",
        "_state",
        "_view",
    )

    def __init__(
        self,
        game: Any,
        spec: GameSpec,
        seats: tuple[tuple[int, ...], ...],
        seed: int,
        observer: Callable[[Any], loading.Observer],
    ) -> None:
        """`observer` is asked for when first needed. One thread looks at a time: what it fills is shared."""
        self._find_observer = observer
        self._game = game
        self._spec = spec
        self._seats = seats
        self._seed = seed
        self._chance: Random | None = None
        self._look: Callable[[Any, int], None] | None = None
        self._view: NDArray[np.float32] | None = None
        self._state = game.new_initial_state()
        self._legal: dict[int, list[int]] = {}
        self._acting: tuple[int, ...] = ()
        self._player = NOBODY
        self._settle()

    def acting(self) -> tuple[int, ...]:
        """Seats that must act now."""
        return self._acting

    def legal(self, seat: int) -> list[int]:
        """Legal actions of an acting seat, ascending."""
        actions = self._legal.get(seat)
        if actions is None:
            if seat not in self._acting:
                raise EnvError(f"{self._spec.key}: seat {seat} is not to act")
            actions = self._legal[seat] = self._state.legal_actions(seat)
        return actions

    def observe(self, seat: int, out: NDArray[np.float32]) -> None:
        """Write what the seat sees into `out`; nothing when the game has no tensor."""
        if self._look is None:
            if not self._spec.observation_shape:
                return
            self._look, tensor = self._find_observer(self._game)
            self._view = tensor.reshape(self._spec.observation_shape)
        self._look(self._state, seat)
        out[...] = self._view

    def act(self, actions: Mapping[int, int]) -> None:
        """Play one action for every acting seat."""
        player = self._player
        if player < 0:
            self._act_together(actions)
            return
        state = self._state
        state.apply_action(self._checked(player, actions))
        self._legal.clear()
        self._player = player = state.current_player()
        if player >= 0:
            self._acting = self._seats[player]
        else:
            self._settle()

    def returns(self) -> list[float]:
        """Total reward so far, per seat."""
        totals: list[float] = self._state.returns()
        return totals

    def text(self, seat: int | None = None) -> str:
        """Show the position, as the seat may see it."""
        game_type = self._game.get_type()
        if seat is None:
            shown = str(self._state)
        elif game_type.provides_observation_string:
            shown = self._state.observation_string(seat)
        elif game_type.provides_information_state_string:
            shown = self._state.information_state_string(seat)
        else:
            shown = str(self._state) if self._spec.has_perfect_information else ""
        return shown or "(nothing to see)"

    def action_text(self, seat: int, action: int) -> str:
        """Name a legal action as a person writes it."""
        if action not in self.legal(seat):
            raise EnvError(f"{self._spec.key}: action {action} is not legal for seat {seat}")
        return str(self._state.action_to_string(seat, action))

    def open_spiel_state(self) -> Any:
        """A copy of the `pyspiel.State`, for OpenSpiel's own players."""
        return self._state.clone()

    def from_open_spiel(self, action: int) -> int:
        """The action that OpenSpiel's player means."""
        return action

    def _checked(self, seat: int, actions: Mapping[int, int]) -> int:
        try:
            action = index(actions[seat])
        except (KeyError, TypeError):
            raise EnvError(f"{self._spec.key}: no action for seat {seat} in {actions!r}") from None
        if action not in self.legal(seat):
            raise EnvError(f"{self._spec.key}: action {action} is not legal for seat {seat}")
        if len(actions) != len(self._acting):
            raise EnvError(f"{self._spec.key}: only seats {self._acting} act now, got actions for {sorted(actions)}")
        return action

    def _act_together(self, actions: Mapping[int, int]) -> None:
        if not self._acting:
            raise EnvError(f"{self._spec.key}: the game is over")
        chosen = {seat: self._checked(seat, actions) for seat in self._acting}
        # OpenSpiel ignores the action of a seat that has none; by convention it is 0.
        self._state.apply_actions([chosen.get(seat, 0) for seat in range(self._spec.players)])
        self._legal.clear()
        self._settle()

    def _settle(self) -> None:
        """Resolve chance until somebody must act or the game is over."""
        state = self._state
        while True:
            player = state.current_player()
            if player >= 0:
                self._player, self._acting = player, self._seats[player]
                return
            self._player = NOBODY
            if player == CHANCE:
                state.apply_action(self._draw(state.chance_outcomes()))
            elif player == SIMULTANEOUS:
                legal = {seat: state.legal_actions(seat) for seat in range(self._spec.players)}
                self._legal = {seat: actions for seat, actions in legal.items() if actions}
                self._acting = tuple(self._legal)
                if self._acting:
                    return
                state.apply_actions([0] * self._spec.players)
            else:
                self._acting = ()
                return

    def _draw(self, outcomes: Sequence[tuple[int, float]]) -> int:
        if self._chance is None:
            self._chance = Random(self._seed)
        left = self._chance.random()
        for action, probability in outcomes:
            left -= probability
            if left < 0:
                return action
        # Rounding can leave a rest of the unit interval: it belongs to the last outcome that can happen.
        return next(action for action, probability in reversed(outcomes) if probability > 0)


def _describe(name: str, game: Any) -> GameSpec:
    game_type = game.get_type()
    kind = pyspiel.GameType
    players = game.num_players()
    teams = PARTNERSHIPS.get(game_type.short_name, ())
    if game_type.utility == kind.Utility.IDENTICAL and players > 1:
        teams = (0,) * players
    return GameSpec(
        key=f"open_spiel:{name}",
        players=players,
        actions=game.num_distinct_actions(),
        observation_shape=loading.tensor_shape(game),
        max_length=game.max_game_length(),
        is_simultaneous=game_type.dynamics == kind.Dynamics.SIMULTANEOUS,
        has_chance=game_type.chance_mode != kind.ChanceMode.DETERMINISTIC,
        is_zero_sum=players > 1 and game.utility_sum() == 0,
        has_perfect_information=game_type.information == kind.Information.PERFECT_INFORMATION,
        rewards_every_move=game_type.reward_model == kind.RewardModel.REWARDS or game_type.short_name in PAYS_EARLY,
        min_return=game.min_utility(),
        max_return=game.max_utility(),
        teams=teams,
        tree=name,
        is_searchable=True,
    )
