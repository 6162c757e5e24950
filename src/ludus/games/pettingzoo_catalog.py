"""The environments of PettingZoo and of MPE2 that ludus knows by name, and what makes them.

A key is `pettingzoo:<family>.<environment>`, with parameters if any. Invariants: a key is looked up here before
anything is imported, so a config can never name code to import; every refusal is a `ConfigError` of one line. Light to
import. Facts that an environment does not tell itself are written down here: who is in a team, and what its outcomes
are like. To add one: an entry in `ENVIRONMENTS`. Not here: those whose actions are not discrete (multiwalker,
pistonball), those that show pictures of a screen (Atari, cooperative_pong), and hanabi, which OpenSpiel has itself.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from math import inf
from typing import Any

from ludus.errors import ConfigError
from ludus.extras import missing_packages
from ludus.games.registry import did_you_mean

Factory = Callable[[], Any]
"""Makes a `pettingzoo.ParallelEnv` or a `pettingzoo.AECEnv`."""

FAMILIES = {
    "mpe": "mpe2",
    "classic": "pettingzoo.classic",
    "butterfly": "pettingzoo.butterfly",
    "sisl": "pettingzoo.sisl",
}
"""The package that holds each family."""

OWN = ("api", "agent_id")
"""Parameters that ludus reads itself."""

_NAME = re.compile(r"([A-Za-z0-9_.]+)(?:\((.*)\))?", flags=re.DOTALL)
_PARAMETER = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*([A-Za-z0-9_.+-]+)\s*")

Teams = tuple[tuple[str, ...], ...]
"""Agents of each team, by name or by the part of it before the number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of an environment before it is made."""

    players: str
    """A number, or a range where a parameter decides."""
    teams: Teams = ()
    simultaneous: bool = True
    """Whether it is played through PettingZoo's parallel interface; otherwise through AEC, in turns."""
    has_chance: bool = True
    zero_sum: bool = False
    perfect_information: bool = False
    bound: float = inf
    """No return is further from 0."""
    needs: tuple[str, ...] = ()
    """Packages besides that of its family."""
    folder: str = ""
    """Where its module is. Default: a folder of its own name."""
    actions: int | None = None
    """With the default parameters, as the observation's shape; None where they were not to be had."""
    observation_shape: tuple[int, ...] | None = None


_AGENTS: Teams = (("agent",),)
_BOARD = Facts(players="2", simultaneous=False, has_chance=False, zero_sum=True, perfect_information=True, bound=1.0)
_CARDS = Facts(players="2", simultaneous=False, zero_sum=True, needs=("rlcard",), folder="rlcard_envs")

ENVIRONMENTS: dict[str, Facts] = {
    "mpe.collect_treasure_v1": Facts(
        players="2-99", actions=5, observation_shape=(94,), teams=(("collector", "deposit"),)
    ),
    "mpe.simple_v3": Facts(players="1", actions=5, observation_shape=(4,)),
    "mpe.simple_adversary_v3": Facts(
        players="3-99", actions=5, observation_shape=(13,), teams=(("adversary",), ("agent",))
    ),
    "mpe.simple_crypto_v3": Facts(players="3", actions=4, observation_shape=(11,), teams=(("eve",), ("alice", "bob"))),
    "mpe.simple_formation_v1": Facts(players="2-99", actions=5, observation_shape=(6,), teams=_AGENTS),
    "mpe.simple_line_v1": Facts(players="2-99", actions=5, observation_shape=(8,), teams=_AGENTS),
    "mpe.simple_push_v3": Facts(players="2", actions=5, observation_shape=(21,), teams=(("adversary",), ("agent",))),
    "mpe.simple_reference_v3": Facts(players="2", actions=50, observation_shape=(21,), teams=_AGENTS),
    "mpe.simple_speaker_listener_v4": Facts(
        players="2", actions=5, observation_shape=(13,), teams=(("speaker", "listener"),)
    ),
    "mpe.simple_spread_v3": Facts(players="2-99", actions=5, observation_shape=(18,), teams=_AGENTS),
    "mpe.simple_tag_v3": Facts(players="2-99", actions=5, observation_shape=(20,), teams=(("adversary",), ("agent",))),
    "mpe.simple_world_comm_v3": Facts(
        players="3-99", actions=20, observation_shape=(40,), teams=(("leadadversary", "adversary"), ("agent",))
    ),
    "classic.tictactoe_v3": replace(_BOARD, actions=9, observation_shape=(3, 3, 2)),
    "classic.connect_four_v3": replace(_BOARD, actions=7, observation_shape=(6, 7, 2)),
    "classic.chess_v6": replace(_BOARD, actions=4672, observation_shape=(8, 8, 111), needs=("chess",)),
    "classic.go_v5": replace(_BOARD, actions=362, observation_shape=(19, 19, 17)),
    "classic.rps_v2": Facts(players="2", actions=3, observation_shape=(4,), zero_sum=True, has_chance=False),
    "classic.leduc_holdem_v4": replace(_CARDS, actions=4, observation_shape=(36,)),
    "classic.texas_holdem_v4": replace(_CARDS, actions=4, observation_shape=(72,)),
    "classic.texas_holdem_no_limit_v6": replace(_CARDS, actions=5, observation_shape=(54,)),
    "butterfly.knights_archers_zombies_v11": Facts(
        players="1-99", actions=6, observation_shape=(27, 5), teams=(("archer", "knight"),)
    ),
    "sisl.pursuit_v5": Facts(
        players="1-99", actions=5, observation_shape=(7, 7, 3), teams=(("pursuer",),), needs=("scipy",)
    ),
}


def module_of(name: str) -> str:
    """The module that defines an environment; the ones with a version in their name are on their way out."""
    family, _, versioned = name.partition(".")
    bare = versioned.rpartition("_")[0]
    return f"{FAMILIES[family]}.{ENVIRONMENTS[name].folder or bare}.{bare}"


def missing_for(name: str) -> str:
    """What to install before the environment can be made; empty when all is there."""
    packages = (FAMILIES[name.partition(".")[0]].partition(".")[0], "pygame", *ENVIRONMENTS[name].needs)
    return missing_packages("it", *packages)


def parse_name(name: str) -> tuple[str, dict[str, Any]]:
    """Split `mpe.simple_spread_v3(N=3)` into the environment and its parameters."""
    match = _NAME.fullmatch(name)
    if not match:
        raise ConfigError(f"pettingzoo:{name[:80]}: expected a name, or name(parameter=value,...)")
    environment = match[1]
    if environment not in ENVIRONMENTS:
        hint = did_you_mean(environment, ENVIRONMENTS, prefix="pettingzoo:")
        raise ConfigError(f"pettingzoo:{name}: no environment {environment!r} is known{hint}")
    return environment, _parameters(name, match[2] or "")


def make_factory(name: str, environment: str, parameters: dict[str, Any]) -> Factory:
    """What makes the environment, imported and with its parameters bound."""
    if problem := missing_for(environment):
        raise ConfigError(f"pettingzoo:{name}: {problem}")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # what it would print belongs to nobody's output
    module = import_module(module_of(environment))
    make = module.parallel_env if _is_parallel(name, ENVIRONMENTS[environment], parameters) else module.env
    own = {key: value for key, value in parameters.items() if key not in OWN}

    def factory() -> Any:
        try:
            return make(**own)
        except (TypeError, ValueError, AssertionError) as error:
            raise ConfigError(f"pettingzoo:{name}: {_first_line(error)}") from error

    return factory


def _is_parallel(name: str, facts: Facts, parameters: dict[str, Any]) -> bool:
    api = parameters.get("api", "parallel" if facts.simultaneous else "aec")
    if api not in ("parallel", "aec") or (api == "parallel" and not facts.simultaneous):
        expected = "parallel or aec" if facts.simultaneous else "aec"
        raise ConfigError(f"pettingzoo:{name}: expected api={expected}, got {api!r}")
    return bool(api == "parallel")


def _parameters(name: str, text: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for entry in text.split(",") if text.strip() else ():
        match = _PARAMETER.fullmatch(entry)
        if not match or match[1] in values:
            raise ConfigError(f"pettingzoo:{name}: expected parameter=value, each once, got {entry.strip()!r}")
        try:
            values[match[1]] = ast.literal_eval(match[2])
        except (ValueError, SyntaxError):  # neither a number nor True, False or None
            values[match[1]] = match[2]
    if "render_mode" in values:
        raise ConfigError(f"pettingzoo:{name}: games are played without a screen; leave render_mode out")
    return values


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
