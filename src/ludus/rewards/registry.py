"""Users' own rewards by name: registered by a plugin, or an entry point of the group `ludus.rewards`."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from ludus.config import LABEL
from ludus.errors import ConfigError
from ludus.plugins import entry_points, load_entry_point
from ludus.rewards.attempt import Attempt

GROUP = "ludus.rewards"

RewardFunction = Callable[[Attempt], Any]
"""Takes an `Attempt` and returns a number or a `Mark`, or a coroutine that does."""

_REGISTERED: dict[str, RewardFunction] = {}


def register_reward(name: str, function: RewardFunction) -> None:
    """Make a reward known under a name, for `{kind: custom, name: ...}`."""
    if not re.match(LABEL, name):
        raise ConfigError(f"reward name {name!r}: expected small letters, digits and _, at most 32")
    if not callable(function):
        raise ConfigError(f"reward {name!r}: expected a function of an attempt, got {type(function).__name__}")
    _REGISTERED[name] = function


def find_reward(name: str) -> RewardFunction:
    """The reward of that name.

    Raises:
        ConfigError: there is none.
    """
    function: RewardFunction | None = _REGISTERED.get(name) or load_entry_point(GROUP, name)
    if function is None:
        known = sorted({*_REGISTERED, *entry_points(GROUP)})
        nearest = get_close_matches(name, known, n=1, cutoff=0.5) or known
        hint = f"did you mean {' or '.join(nearest)}?" if nearest else "register it in a file given with --plugin"
        raise ConfigError(f"reward {name!r}: no such reward; {hint}")
    return function
