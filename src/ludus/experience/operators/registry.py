"""Operators by kind. Add one from a plugin with `register_operator`, or from an installed package with an entry point
in the group `ludus.operators`; a built-in one is in `OPERATORS`, its model in `config/sections/experience.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ludus.config import CustomOperatorConfig
from ludus.experience.operators.comparisons import Deduplicate, PassRate, ZeroVariance
from ludus.experience.operators.custom import GroupFunction, PerGroup
from ludus.experience.operators.protocol import Operator
from ludus.experience.operators.shaping import Shape
from ludus.experience.operators.single_rows import RewardRange, Validity
from ludus.plugins import Registry

OWN: Registry[GroupFunction] = Registry("operator", "ludus.operators")


def register_operator(name: str, function: GroupFunction) -> None:
    """Make an operator known under a name.

    Args:
        name: What `{kind: custom, name: ...}` says.
        function: Takes the raw rows of one group, and the options as keywords; gives a `Verdict`. It must not change
            the rows nor remember anything.
    """
    OWN.add(name, function)


def make_operator(config: Any) -> tuple[str, Operator]:
    """The operator that a config asks for, and what to call it.

    Raises:
        ConfigError: nothing is registered under the name of a custom one.
    """
    return getattr(config, "name", config.kind), OPERATORS[config.kind](config)


def _make_custom(config: CustomOperatorConfig) -> Operator:
    return PerGroup(config.name, OWN.find(config.name), dict(config.options))


OPERATORS: dict[str, Callable[[Any], Operator]] = {
    "validity": Validity,
    "reward_range": RewardRange,
    "zero_variance": ZeroVariance,
    "deduplicate": Deduplicate,
    "shape": Shape,
    "pass_rate": PassRate,
    "custom": _make_custom,
}
