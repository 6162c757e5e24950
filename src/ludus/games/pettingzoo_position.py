"""One game of a PettingZoo environment in progress: all agents at once, or one after the other.

Invariants: an environment is never given an action that is not legal, so a refused move leaves the position as it was;
it is reset with the game's seed before the game, and given back when nobody acts any more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ludus.errors import EnvError
from ludus.games.render import render_seen

if TYPE_CHECKING:
    from ludus.games.pettingzoo import PettingZooGame

_SEEDS = 1 << 31


class PettingZooPosition(ABC):
    """One game in progress; how the environment is stepped is for the two kinds of it to say."""

    def __init__(self, game: PettingZooGame, env: Any, seed: int) -> None:
        self._game = game
        self._spec = game.spec
        self._seat_of = {agent: seat for seat, agent in enumerate(game.agents)}
        self._env: Any = env
        self._returns = [0.0] * game.spec.players
        self._acting: tuple[int, ...] = ()
        self._legal: dict[int, list[int]] = {}
        self._ply = 0
        self._begin(seed % _SEEDS)
        self._settle()

    def acting(self) -> tuple[int, ...]:
        """Seats that must act now."""
        return self._acting

    def legal(self, seat: int) -> list[int]:
        """Legal actions of an acting seat, ascending."""
        if seat not in self._legal:
            if seat not in self._acting:
                raise EnvError(f"{self._spec.key}: seat {seat} is not to act")
            agent = self._game.agents[seat]
            self._legal[seat] = self._game.senses.legal(seat, self._seen(agent), self._info(agent))
        return self._legal[seat]

    def observe(self, seat: int, out: NDArray[np.float32]) -> None:
        """Write what the seat sees into `out`."""
        self._game.senses.write(seat, self._seen(self._game.agents[seat]), out)

    def state(self, out: NDArray[np.float32]) -> None:
        """Write all there is to know into `out`: the environment's own state, else what all agents see."""
        if self._env is None:
            out[:] = 0.0
        elif self._game.has_own_state:
            out[:] = np.asarray(self._env.state(), np.float32).reshape(-1)
        else:
            for seat, part in enumerate(out.reshape(self._spec.players, -1)):
                self.observe(seat, part.reshape(self._spec.observation_shape))

    def act(self, actions: Mapping[int, int]) -> None:
        """Play one action for every acting seat."""
        if not self._acting or sorted(actions) != sorted(self._acting):
            raise EnvError(f"{self._spec.key}: seats {self._acting} act now, got actions for {sorted(actions)}")
        chosen = {seat: self._checked(seat, action) for seat, action in actions.items()}
        self._step({self._game.agents[seat]: self._game.senses.action(seat, chosen[seat]) for seat in self._acting})
        self._ply += 1
        self._settle()

    def returns(self) -> list[float]:
        """Total reward so far, per seat."""
        return list(self._returns)

    def text(self, seat: int | None = None) -> str:
        """Show what the seat sees, or what all see."""
        seats = range(self._spec.players) if seat is None else (seat,)
        lines = [f"ply {self._ply}" + ("" if self._acting else ", over")]
        for each in seats:
            board = "\n" if len(self._spec.observation_shape) == 3 else ""
            seen = board + render_seen(self, self._spec, each)
            lines.append(f"{self._game.agents[each]}, {self._returns[each]:g} so far, sees {seen}")
        return "\n".join(lines)

    def action_text(self, seat: int, action: int) -> str:
        """Name a legal action by its number in the environment."""
        return f"action {self._game.senses.action(seat, self._checked(seat, action))}"

    def _checked(self, seat: int, action: Any) -> int:
        try:
            number = index(action)
        except TypeError:
            raise EnvError(f"{self._spec.key}: {action!r} is no action") from None
        if number not in self.legal(seat):
            raise EnvError(f"{self._spec.key}: action {number} is not legal for seat {seat}")
        return number

    def _settle(self) -> None:
        """See who acts now; give the environment back when nobody does."""
        self._legal.clear()
        self._acting = tuple(self._seat_of[agent] for agent in self._alive())
        if self._ply >= self._spec.max_length:
            self._acting = ()
        if not self._acting and self._env is not None:
            self._game.idle.append(self._env)
            self._env = None

    def _credit(self, rewards: Mapping[str, float]) -> None:
        for agent, reward in rewards.items():
            self._returns[self._seat_of[agent]] += float(reward)

    @abstractmethod
    def _begin(self, seed: int) -> None:
        """Reset the environment."""

    @abstractmethod
    def _step(self, actions: dict[str, int]) -> None:
        """Let agents act and credit their rewards."""

    @abstractmethod
    def _alive(self) -> Sequence[str]:
        """Agents that act now."""

    @abstractmethod
    def _seen(self, agent: str) -> Any:
        """What an agent observes; None when it is dead."""

    @abstractmethod
    def _info(self, agent: str) -> Mapping[str, Any]:
        """What else the environment says about an agent."""


class ParallelPosition(PettingZooPosition):
    """All agents that live act at once."""

    def _begin(self, seed: int) -> None:
        self._observations, self._infos = self._env.reset(seed=seed)
        self._living: list[str] = list(self._env.agents)

    def _step(self, actions: dict[str, int]) -> None:
        self._observations, rewards, ended, cut, self._infos = self._env.step(actions)
        self._credit(rewards)
        self._living = [agent for agent in self._env.agents if not ended.get(agent) and not cut.get(agent)]

    def _alive(self) -> Sequence[str]:
        return self._living

    def _seen(self, agent: str) -> Any:
        return self._observations.get(agent) if agent in self._living else None

    def _info(self, agent: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._infos.get(agent, {})
        return found


class TurnPosition(PettingZooPosition):
    """One agent acts at a time: the one that the environment has selected."""

    def _begin(self, seed: int) -> None:
        self._env.reset(seed=seed)
        self._pass_dead()

    def _step(self, actions: dict[str, int]) -> None:
        (action,) = actions.values()
        self._env.step(action)
        self._credit(self._env.rewards)
        self._pass_dead()

    def _pass_dead(self) -> None:
        self._views: dict[str, Any] = {}
        env = self._env
        while env.agents and self._is_dead(env.agent_selection):
            env.step(None)

    def _is_dead(self, agent: str) -> bool:
        return bool(self._env.terminations[agent] or self._env.truncations[agent])

    def _alive(self) -> Sequence[str]:
        return (self._env.agent_selection,) if self._env is not None and self._env.agents else ()

    def _seen(self, agent: str) -> Any:
        if self._env is None or agent not in self._env.agents or self._is_dead(agent):
            return None
        if agent not in self._views:
            self._views[agent] = self._env.observe(agent)
        return self._views[agent]

    def _info(self, agent: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._env.infos.get(agent, {})
        return found
