"""PettingZoo's environments as ludus games: parallel ones are played simultaneously, AEC ones in turns.

Seats are the environment's `possible_agents`, in that order. Invariant: an environment is used by one position at a
time, and again by later ones. Agents that die early do not act any more and see zeros. Termination and truncation both
end the game for an agent, and so does `max_length`: what would have followed counts for nothing.

Agents with the same box as their space keep its shape. Where they differ, what each sees is laid out flat and padded
with zeros to the largest, followed by a one-hot of the agent, because one network plays for all of them and could not
tell them apart. Actions are numbered up to the largest; those that an agent does not have are not legal.

Your own environment: `register_game("name", lambda: PettingZooGame(make_env, key="name"))`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, prod
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pettingzoo import AECEnv, ParallelEnv

from ludus.errors import ConfigError, EnvError
from ludus.games.pettingzoo_catalog import ENVIRONMENTS, Factory, make_factory, parse_name
from ludus.games.pettingzoo_position import ParallelPosition, PettingZooPosition, TurnPosition
from ludus.games.protocol import GameSpec

DEFAULT_LENGTH = 10_000
"""Plies after which a game is over, when neither the environment nor whoever adapts it says."""
MASK = "action_mask"


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
        self.idle: list[Any] = [env]
        """Environments that no position uses."""
        self.spec = GameSpec(
            key=key,
            players=len(self.agents),
            actions=self.senses.actions,
            observation_shape=self.senses.shape,
            state_shape=(
                int(np.asarray(env.state()).size) if self.has_own_state else prod(self.senses.shape) * len(self.agents),
            ),
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
            layout="channels_last",
        )

    def start(self, seed: int) -> PettingZooPosition:
        """Begin a game; the seed decides all chance."""
        # Making an environment can take as long as playing a fifth of a game in it.
        env = self.idle.pop() if self.idle else self._factory()
        return (ParallelPosition if self._is_parallel else TurnPosition)(self, env, seed)


class Senses:
    """Reads observations and action masks of all agents of one environment."""

    def __init__(self, key: str, env: Any, agents: Sequence[str], *, agent_id: bool | None = None) -> None:
        """`agent_id`: whether to append a one-hot of the agent. Default: where agents differ in what they see or do."""
        self._key = key
        self._spaces = [_seen_space(key, agent, env.observation_space(agent)) for agent in agents]
        choices = [_discrete(key, agent, env.action_space(agent)) for agent in agents]
        self._first = [int(choice.start) for choice in choices]
        self._counts = [int(choice.n) for choice in choices]
        self.actions = max(self._counts)
        self._sizes = [int(spaces.flatdim(space)) for space in self._spaces]
        forms = {(type(space), space.shape, size) for space, size in zip(self._spaces, self._sizes, strict=True)}
        are_alike = len(forms) == 1 and len(set(self._counts)) == 1
        self._width = max(self._sizes)
        self.has_agent_id = not are_alike if agent_id is None else agent_id
        kind, box, _ = next(iter(forms))
        flat = (self._width + (len(agents) if self.has_agent_id else 0),)
        self.shape: tuple[int, ...] = (
            box if are_alike and kind is spaces.Box and box and not self.has_agent_id else flat
        )

    def write(self, seat: int, observation: Any, out: NDArray[np.float32]) -> None:
        """Write what a seat sees into `out`, `shape`; None writes zeros, with the one-hot."""
        flat = out.reshape(-1)
        flat[:] = 0.0
        if observation is not None:
            flat[: self._sizes[seat]] = self._flat(seat, observation)
        if self.has_agent_id:
            flat[self._width + seat] = 1.0

    def legal(self, seat: int, observation: Any, info: Mapping[str, Any]) -> list[int]:
        """Actions that a seat may take: all that it has, or what its mask says."""
        mask = observation.get(MASK) if isinstance(observation, Mapping) else None
        mask = info.get(MASK) if mask is None else mask
        if mask is None:
            return list(range(self._counts[seat]))
        allowed: list[int] = np.flatnonzero(np.asarray(mask)[: self._counts[seat]]).tolist()
        if not allowed:
            raise EnvError(f"{self._key}: the action mask of seat {seat}, which is to act, allows nothing")
        return allowed

    def action(self, seat: int, action: int) -> int:
        """The environment's own number of an action."""
        return action + self._first[seat]

    def _flat(self, seat: int, observation: Any) -> NDArray[Any]:
        if isinstance(observation, Mapping) and MASK in observation:
            rest = {name: value for name, value in observation.items() if name != MASK}
            observation = rest["observation"] if set(rest) == {"observation"} else rest
        space = self._spaces[seat]
        if isinstance(space, spaces.Box):
            return np.asarray(observation, np.float32).reshape(-1)
        return np.asarray(spaces.flatten(space, observation), np.float32)


def _seen_space(key: str, agent: str, space: Any) -> Any:
    """The space of what an agent sees, its action mask left out."""
    if isinstance(space, spaces.Dict) and MASK in space.spaces:
        rest = {name: part for name, part in space.spaces.items() if name != MASK}
        space = rest["observation"] if set(rest) == {"observation"} else spaces.Dict(rest)
    if isinstance(space, spaces.Text) or not space.is_np_flattenable:
        raise ConfigError(
            f"{key}: {agent} sees {space}, which cannot be laid out as an array; expected a box or a dict"
        )
    return space


def _discrete(key: str, agent: str, space: Any) -> Any:
    if not isinstance(space, spaces.Discrete):
        raise ConfigError(f"{key}: {agent} acts in {space}; only discrete actions can be played")
    return space


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


def _has_state(env: Any) -> bool:
    """Whether the environment tells its own state; PettingZoo's bases raise NotImplementedError."""
    try:
        return np.asarray(env.state(), np.float32).size > 0
    except (NotImplementedError, AttributeError, TypeError, ValueError):
        return False


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
