"""Operators by kind. Add one from a plugin with `register_operator`, or from an installed package with an entry point
in the group `ludus.operators`; a built-in one is an entry in `OPERATORS` and a model in `config/flow.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from ludus.config import CustomOperatorConfig
from ludus.errors import ConfigError
from ludus.experience.operators.comparisons import Deduplicate, PassRate, ZeroVariance
from ludus.experience.operators.custom import GroupFunction, PerGroup
from ludus.experience.operators.protocol import Operator
from ludus.experience.operators.shaping import Shape
from ludus.experience.operators.single_rows import RewardRange, Validity
from ludus.plugins import entry_points, load_entry_point

GROUP = "ludus.operators"

_REGISTERED: dict[str, GroupFunction] = {}


def register_operator(name: str, function: GroupFunction) -> None:
    """Make an operator known under a name.

    Args:
        name: What `{kind: custom, name: ...}` says.
        function: Takes the raw rows of one group, and the options as keywords; gives a `Verdict`. It must not change
            the rows nor remember anything.
    """
    if not name:
        raise ConfigError("operator name '': expected a name such as my_operator")
    _REGISTERED[name] = function


def make_operator(config: Any) -> tuple[str, Operator]:
    """The operator that a config asks for, and what to call it.

    Raises:
        ConfigError: nothing is registered under the name of a custom one.
    """
    return getattr(config, "name", config.kind), OPERATORS[config.kind](config)


def _make_custom(config: CustomOperatorConfig) -> Operator:
    function = _REGISTERED.get(config.name) or load_entry_point(GROUP, config.name)
    if function is None:
        near = get_close_matches(config.name, sorted({*_REGISTERED, *entry_points(GROUP)}), n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else "give the file that registers it with --plugin"
        raise ConfigError(f"no operator {config.name!r} is registered; {hint}")
    return PerGroup(config.name, function, dict(config.options))


OPERATORS: dict[str, Callable[[Any], Operator]] = {
    "validity": Validity,
    "reward_range": RewardRange,
    "zero_variance": ZeroVariance,
    "deduplicate": Deduplicate,
    "shape": Shape,
    "pass_rate": PassRate,
    "custom": _make_custom,
}
