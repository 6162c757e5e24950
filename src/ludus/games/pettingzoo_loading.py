"""Makes environments of PettingZoo by name with parameters, and says in one line what is wrong with a bad one.

Invariant: every refusal is a `ConfigError`, and nothing is imported but what `pettingzoo_catalog` lists.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from ludus.errors import ConfigError
from ludus.games.pettingzoo_catalog import ENVIRONMENTS, Facts, missing_for, module_of

Factory = Callable[[], Any]
"""Makes a `pettingzoo.ParallelEnv` or a `pettingzoo.AECEnv`."""

OWN = ("api", "agent_id")
"""Parameters that ludus reads itself."""

_NAME = re.compile(r"([A-Za-z0-9_.]+)(?:\((.*)\))?", flags=re.DOTALL)
_PARAMETER = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*([A-Za-z0-9_.+-]+)\s*")


def parse_name(name: str) -> tuple[str, dict[str, Any]]:
    """Split `mpe.simple_spread_v3(N=3)` into the environment and its parameters."""
    match = _NAME.fullmatch(name)
    if not match:
        raise ConfigError(f"pettingzoo:{name[:80]}: expected a name, or name(parameter=value,...)")
    environment = match[1]
    if environment not in ENVIRONMENTS:
        nearest = get_close_matches(environment, ENVIRONMENTS, n=2, cutoff=0.5)
        hint = f"; did you mean {' or '.join(f'pettingzoo:{near}' for near in nearest)}?" if nearest else ""
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
        values[match[1]] = _value(match[2])
    if "render_mode" in values:
        raise ConfigError(f"pettingzoo:{name}: games are played without a screen; leave render_mode out")
    return values


def _value(text: str) -> Any:
    """A number, True, False or None; anything else is text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
