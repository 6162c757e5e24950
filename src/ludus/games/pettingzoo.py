"""PettingZoo's environments as ludus games: parallel ones are played simultaneously, AEC ones in turns.

Seats are the environment's `possible_agents`, in that order. Invariant: an environment is used by one position at a
time, and again by later ones. Agents that die early do not act any more and see zeros. Termination and truncation both
end the game for an agent, and so does `max_length`: what would have followed counts for nothing.

Your own environment: `register_game("name", lambda: PettingZooGame(make_env, key="name"))`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import Any

import numpy as np
from pettingzoo import AECEnv, ParallelEnv

from ludus.errors import ConfigError
from ludus.games.pettingzoo_catalog import ENVIRONMENTS, Factory, make_factory, parse_name
from ludus.games.pettingzoo_position import ParallelPosition, PettingZooPosition, Rules, TurnPosition
from ludus.games.pettingzoo_spaces import Senses
from ludus.games.protocol import GameSpec

DEFAULT_LENGTH = 10_000
"""Plies after which a game is over, when neither the environment nor whoever adapts it says."""


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
        has_own_state = _has_state(env)
        self._idle = [env]
        self.spec = GameSpec(
            key=key,
            players=len(self.agents),
            actions=self.senses.actions,
            observation_shape=self.senses.shape,
            state_shape=(
                int(np.asarray(env.state()).size) if has_own_state else prod(self.senses.shape) * len(self.agents),
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
        self._rules = Rules(
            spec=self.spec,
            agents=self.agents,
            senses=self.senses,
            has_own_state=has_own_state,
            give_back=self._idle.append,
        )

    def start(self, seed: int) -> PettingZooPosition:
        """Begin a game; the seed decides all chance."""
        # Making an environment can take as long as playing a fifth of a game in it.
        env = self._idle.pop() if self._idle else self._factory()
        return (ParallelPosition if self._is_parallel else TurnPosition)(self._rules, env, seed)


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
