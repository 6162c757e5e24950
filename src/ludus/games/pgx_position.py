"""One game of pgx in progress, on the host.

Invariant: pgx is never given an illegal action (it would end the game with a loss), so a refused move leaves the
position as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.errors import EnvError
from ludus.games.pgx_programs import Programs
from ludus.games.pgx_rules import RULES
from ludus.games.protocol import GameSpec
from ludus.games.render import render_observation
from ludus.games.twins import Twin, TwinState


class PgxPosition:
    """One game of pgx in progress. Seats are numbered in the order of play; `_order` holds their pgx players."""

    def __init__(self, programs: Programs, spec: GameSpec, twin: Twin | None, seed: int) -> None:
        self._programs = programs
        self._spec = spec
        self._twin = twin
        self._twin_state: TwinState | None = None
        self._twin_plies = 0
        self._actions: list[int] = []
        self._key = np.array([seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF], np.uint32)
        self._state, order = programs.begin(self._key)
        self._order: list[int] = np.asarray(order).tolist()
        self._totals = np.zeros(spec.players)
        self._legal: list[int] | None = None
        self._seat = self._find_seat()

    def acting(self) -> tuple[int, ...]:
        """The seat that must act now; none when over."""
        return () if self._seat is None else (self._seat,)

    def legal(self, seat: int) -> list[int]:
        """Legal actions of the acting seat, ascending."""
        if seat != self._seat:
            raise EnvError(f"{self._spec.key}: seat {seat} is not to act")
        if self._legal is None:
            self._legal = np.flatnonzero(np.asarray(self._state.legal_action_mask)).tolist()
        return self._legal

    def observe(self, seat: int, out: NDArray[np.float32]) -> None:
        """Write what the seat sees into `out`."""
        if seat == self._seat:
            out[...] = np.asarray(self._state.observation)
        else:
            out[...] = np.asarray(self._programs.observe(self._state, self._order[seat]))

    def act(self, actions: Mapping[int, int]) -> None:
        """Play the acting seat's action; chance that follows comes from the seed."""
        action = self._checked(actions)
        self._state = self._programs.step(self._state, action, self._key)
        self._actions.append(action)
        self._totals += np.asarray(self._state.rewards)
        self._legal = None
        self._seat = self._find_seat()

    def returns(self) -> list[float]:
        """Total reward so far, per seat."""
        totals: list[float] = self._totals[self._order].tolist()
        return totals

    def text(self, seat: int | None = None) -> str:
        """Show the position, as the seat may see it."""
        if self._twin is not None:
            state = self._follow().state
            return str(state) if seat is None else str(state.observation_string(seat))
        seats = range(self._spec.players) if seat is None else (seat,)
        return "\n\n".join(f"seat {each} sees\n{self._seen(each)}" for each in seats)

    def action_text(self, seat: int, action: int) -> str:
        """Name a legal action as a person writes it; its number where nobody has named it."""
        if action not in self.legal(seat):
            raise EnvError(f"{self._spec.key}: action {action} is not legal for seat {seat}")
        if names := RULES[self._spec.key.removeprefix("pgx:")].action_names:
            return names[action]
        if self._twin is None or self._follow().state.is_terminal():
            return str(action)
        return str(self._follow().state.action_to_string(seat, self._twin.to_open_spiel(action)))

    def open_spiel_state(self) -> Any:
        """A copy of the twin's `pyspiel.State`, for OpenSpiel's own players."""
        return self._follow().state.clone()

    def from_open_spiel(self, action: int) -> int:
        """The action that OpenSpiel's player means."""
        return self._twin.from_open_spiel(action) if self._twin else action

    def _find_seat(self) -> int | None:
        # By way of NumPy: `bool` and `int` of a JAX array take several times as long.
        is_over = np.asarray(self._state.terminated) or np.asarray(self._state.truncated)
        return None if is_over else self._order.index(np.asarray(self._state.current_player).item())

    def _checked(self, actions: Mapping[int, int]) -> int:
        if self._seat is None:
            raise EnvError(f"{self._spec.key}: the game is over")
        try:
            action = index(actions[self._seat])
        except (KeyError, TypeError):
            raise EnvError(f"{self._spec.key}: no action for seat {self._seat} in {actions!r}") from None
        if action not in self.legal(self._seat):
            raise EnvError(f"{self._spec.key}: action {action} is not legal for seat {self._seat}")
        if len(actions) != 1:
            raise EnvError(f"{self._spec.key}: only seat {self._seat} acts now, got actions for {sorted(actions)}")
        return action

    def _seen(self, seat: int) -> str:
        seen = np.zeros(self._spec.observation_shape, np.float32)
        self.observe(seat, seen)
        return render_observation(seen)

    def _follow(self) -> TwinState:
        """The twin's state after the moves so far."""
        if self._twin is None:
            raise EnvError(f"{self._spec.key}: OpenSpiel has no equal game, so its players cannot play it")
        if self._twin_state is None:
            self._twin_state = TwinState(self._twin, self._twin.cards(self._state, self._order))
        self._twin_state.play(self._actions[self._twin_plies :])
        self._twin_plies = len(self._actions)
        return self._twin_state
