"""What agents of PettingZoo see and may do, as arrays of one shape for all of them.

Invariant: agents with the same box as their space keep its shape. Where they differ, what each sees is laid out flat
and padded with zeros to the largest, followed by a one-hot of the agent, because one network plays for all of them and
could not tell them apart. Actions are numbered up to the largest; those that an agent does not have are not legal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ludus.errors import ConfigError, EnvError

MASK = "action_mask"


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
