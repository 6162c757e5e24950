"""Curricula by kind. Add one from a plugin with `register_curriculum`, or from an installed package with an entry point
in the group `ludus.curricula`; a built-in one is an entry in `CURRICULA` and a model in `config/sections/tasks.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ludus.config import CustomOrderConfig
from ludus.errors import ConfigError
from ludus.plugins import Registry
from ludus.tasks.curricula.adaptive import Adaptive
from ludus.tasks.curricula.fixed_orders import EasyToHard, Random, Sequential, Shuffle
from ludus.tasks.curricula.protocol import Curriculum, Rows

CurriculumFactory = Callable[..., Curriculum]

OWN: Registry[CurriculumFactory] = Registry("curriculum", "ludus.curricula")


def register_curriculum(name: str, factory: CurriculumFactory) -> None:
    """Make a curriculum known under a name; it is made as `factory(rows, seed, **options)`."""
    OWN.add(name, factory)


def make_curriculum(config: Any, rows: Rows, seed: int) -> Curriculum:
    """The curriculum that a config asks for, over these rows.

    Raises:
        ConfigError: nothing is registered under the name of a custom one, or the rows lack what it goes by.
    """
    return CURRICULA[config.kind](config, rows, seed)


def _make_custom(config: CustomOrderConfig, rows: Rows, seed: int) -> Curriculum:
    factory = OWN.find(config.name)
    try:
        made = factory(rows, seed, **config.options)
    except Exception as error:  # a user's code
        raise ConfigError(f"curriculum {config.name}: {type(error).__name__}: {error}") from error
    if not isinstance(made, Curriculum):
        raise ConfigError(f"curriculum {config.name}: it lacks adapts, choose, feedback, state or load_state")
    return made


CURRICULA: dict[str, Callable[[Any, Rows, int], Curriculum]] = {
    "sequential": Sequential,
    "shuffle": Shuffle,
    "random": Random,
    "easy_to_hard": EasyToHard,
    "adaptive": Adaptive,
    "custom": _make_custom,
}
