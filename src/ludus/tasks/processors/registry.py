"""Task processors by kind. Add one from a plugin with `register_processor`, or from an installed package with an entry
point in the group `ludus.processors`; a built-in one is in `PROCESSORS`, its model in `config/sections/tasks.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ludus.config import CustomProcessorConfig
from ludus.plugins import Registry
from ludus.tasks.processors.custom import CustomProcessor, RowFunction, SetFunction, SetProcessor
from ludus.tasks.processors.deduplication import Deduplication
from ludus.tasks.processors.difficulty import DifficultyScore
from ludus.tasks.processors.filtering import Filter
from ludus.tasks.processors.mapping import Mapping
from ludus.tasks.processors.priority import Priority
from ludus.tasks.processors.protocol import Processor

OWN: Registry[Any] = Registry("processor", "ludus.processors")
"""Functions of a row, or pairs of a function and whether it takes all rows."""


def register_processor(name: str, function: RowFunction | SetFunction, *, whole: bool = False) -> None:
    """Make a processor known under a name.

    Args:
        name: What `{kind: custom, name: ...}` says.
        function: Takes the fields of one row and the options as keywords; gives the fields of the new row, or None to
            leave the row out. An error that it raises refuses the row.
        whole: The function takes and gives the list of all rows instead; an error ends the run.
    """
    OWN.add(name, (function, whole))


def make_processor(config: Any) -> Processor:
    """The processor that a config asks for.

    Raises:
        ConfigError: nothing is registered under the name of a custom one.
    """
    return PROCESSORS[config.kind](config)


def _make_custom(config: CustomProcessorConfig) -> Processor:
    found = OWN.find(config.name)
    function, whole = found if isinstance(found, tuple) else (found, False)
    made = SetProcessor if whole else CustomProcessor
    return made(config.name, function, dict(config.options))


PROCESSORS: dict[str, Callable[[Any], Processor]] = {
    "filter": Filter,
    "map": Mapping,
    "deduplicate": Deduplication,
    "score_difficulty": DifficultyScore,
    "prioritise": Priority,
    "custom": _make_custom,
}
