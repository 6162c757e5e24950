"""PettingZoo's environments as ludus games: parallel ones are played simultaneously, AEC ones in turns.

Seats are the environment's `possible_agents`, in that order. Invariants: an environment is never given an action that
is not legal, so a refused move leaves the position as it was; an environment is reset with the game's seed before
every game and used by one position at a time. Agents that die early do not act any more and see zeros. Termination and
truncation both end the game for an agent, and so does `max_length`: what would have followed counts for nothing.

Your own environment: `register_game("name", lambda: PettingZooGame(make_env, key="name"))`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import inf, prod
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pettingzoo import AECEnv, ParallelEnv

from ludus.errors import ConfigError, EnvError
from ludus.games.pettingzoo_catalog import ENVIRONMENTS
from ludus.games.pettingzoo_loading import Factory, make_factory, parse_name
from ludus.games.pettingzoo_spaces import Senses
from ludus.games.protocol import GameSpec
from ludus.games.render import render_observation

DEFAULT_LENGTH = 10_000
"""Plies after which a game is over, when neither the environment nor whoever adapts it says."""
_SEEDS = 1 << 31


class PettingZooGame:
    """An environment of PettingZoo, by what makes it."""

    def __init__(
        self,
        factory: Factory,
        *,
        key: str,
        teams: Sequence[Sequence[str]] = (),
        agent_id: bool | None = None,
        max_length: int | None = None,
        has_chance: bool = True,
        is_zero_sum: bool = False,
        has_perfect_information: bool = False,
        min_return: float = -inf,
        max_return: float = inf,
    ) -> None:
        """Make one environment to learn what it is like.

        Args:
            factory: makes a `ParallelEnv` or an `AECEnv`.
            key: what the game is called; the name that it is registered under.
            teams: the agents of each team, by name or by the part of it before the number: `[["adversary"], ["agent"]]`
                is two teams, `[["agent"]]` one. Default: every agent plays for itself.
            agent_id: append a one-hot of the agent to what it sees. Default: where agents see or do different things.
            max_length: plies after which the game is over. Default: the environment's `max_cycles`, else 10,000.
            has_chance: whether the seed matters.
            is_zero_sum: whether the returns of all seats sum to 0.
            has_perfect_information: whether every seat sees everything.
            min_return: no seat's return is lower.
            max_return: no seat's return is higher.
        """
        self._factory = factory
        env = factory()
        if not isinstance(env, (ParallelEnv, AECEnv)):
            raise ConfigError(f"{key}: {type(env).__name__} is neither a ParallelEnv nor an AECEnv of PettingZoo")
        self.agents: tuple[str, ...] = tuple(getattr(env, "possible_agents", ()))
        if not self.agents:
            raise ConfigError(f"{key}: the environment has no possible_agents; seats must be known beforehand")
        self._is_parallel = isinstance(env, ParallelEnv)
        self.senses = Senses(key, env, self.agents, agent_id=agent_id)
        env.reset(seed=0)
        self.has_own_state = _has_state(env)
        self._idle = [env]
        self._spec = GameSpec(
            key=key,
            players=len(self.agents),
            actions=self.senses.actions,
            observation_shape=self.senses.shape,
            state_shape=(_state_size(env, self),),
            max_length=max_length or _own_length(env, 1 if self._is_parallel else len(self.agents)),
            is_simultaneous=self._is_parallel,
            has_chance=has_chance,
            is_zero_sum=is_zero_sum,
            has_perfect_information=has_perfect_information,
            rewards_every_move=True,
            min_return=min_return,
            max_return=max_return,
            teams=_number_teams(key, self.agents, teams),
            teams_share_rewards=False,
        )

    @property
    def spec(self) -> GameSpec:
        """What the game is."""
        return self._spec

    def start(self, seed: int) -> PettingZooPosition:
        """Begin a game; the seed decides all chance."""
        return (ParallelPosition if self._is_parallel else TurnPosition)(self, self._borrow(), seed)

    def _borrow(self) -> Any:
        # Making an environment can take as long as playing a fifth of a game in it.
        return self._idle.pop() if self._idle else self._factory()

    def give_back(self, env: Any) -> None:
        """Take an environment back that no position needs any more."""
        self._idle.append(env)


def make_pettingzoo_game(name: str) -> PettingZooGame:
    """The game of a name with parameters, such as `mpe.simple_spread_v3(N=3,max_cycles=25)`."""
    environment, parameters = parse_name(name)
    facts = ENVIRONMENTS[environment]
    agent_id = parameters.get("agent_id")
    if agent_id not in (True, False, None):
        raise ConfigError(f"pettingzoo:{name}: expected agent_id=True or agent_id=False, got {agent_id!r}")
    return PettingZooGame(
        make_factory(name, environment, parameters),
        key=f"pettingzoo:{name}",
        teams=facts.teams,
        agent_id=agent_id,
        has_chance=facts.has_chance,
        is_zero_sum=facts.zero_sum,
        has_perfect_information=facts.perfect_information,
        min_return=-facts.bound,
        max_return=facts.bound,
    )


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
            seen = np.zeros(self._spec.observation_shape, np.float32)
            self.observe(each, seen)
            lines.append(f"{self._game.agents[each]}, {self._returns[each]:g} so far, sees {_shown(seen)}")
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
            self._game.give_back(self._env)
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


def _shown(seen: NDArray[np.float32]) -> str:
    return "\n" + render_observation(seen) if seen.ndim == 3 else render_observation(seen)


def _has_state(env: Any) -> bool:
    """Whether the environment tells its own state; PettingZoo's bases raise NotImplementedError."""
    try:
        return np.asarray(env.state(), np.float32).size > 0
    except (NotImplementedError, AttributeError, TypeError, ValueError):
        return False


def _state_size(env: Any, game: PettingZooGame) -> int:
    if game.has_own_state:
        return int(np.asarray(env.state()).size)
    return prod(game.senses.shape) * len(game.agents)


def _own_length(env: Any, turns: int) -> int:
    cycles = getattr(env.unwrapped, "max_cycles", None)
    return int(cycles) * turns if isinstance(cycles, int) and cycles > 0 else DEFAULT_LENGTH


def _number_teams(key: str, agents: Sequence[str], teams: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """The team of each agent; empty when every agent plays for itself."""
    if not teams or len(agents) == 1:
        return ()
    of_name = {name: number for number, members in enumerate(teams) for name in members}
    found = [of_name.get(agent, of_name.get(agent.rpartition("_")[0])) for agent in agents]
    unnamed = [agent for agent, team in zip(agents, found, strict=True) if team is None]
    if unnamed:
        raise ConfigError(f"{key}: teams name no team for {', '.join(unnamed)}")
    return tuple(team for team in found if team is not None)
