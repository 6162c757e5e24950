"""Task processors by kind. Add one from a plugin with `register_processor`, or from an installed package with an entry
point in the group `ludus.processors`; a built-in one is an entry in `PROCESSORS` and a model in `config/tasksets.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from ludus.config import CustomProcessorConfig
from ludus.errors import ConfigError
from ludus.plugins import entry_points, load_entry_point
from ludus.tasks.processors.custom import CustomProcessor, RowFunction, SetFunction, SetProcessor
from ludus.tasks.processors.deduplication import Deduplication
from ludus.tasks.processors.difficulty import DifficultyScore
from ludus.tasks.processors.filtering import Filter
from ludus.tasks.processors.mapping import Mapping
from ludus.tasks.processors.priority import Priority
from ludus.tasks.processors.protocol import Processor

GROUP = "ludus.processors"

_REGISTERED: dict[str, tuple[Callable[..., Any], bool]] = {}


def register_processor(name: str, function: RowFunction | SetFunction, *, whole: bool = False) -> None:
    """Make a processor known under a name.

    Args:
        name: What `{kind: custom, name: ...}` says.
        function: Takes the fields of one row and the options as keywords; gives the fields of the new row, or None to
            leave the row out. An error that it raises refuses the row.
        whole: The function takes and gives the list of all rows instead; an error ends the run.
    """
    if not name:
        raise ConfigError("processor name '': expected a name such as my_processor")
    _REGISTERED[name] = (function, whole)


def make_processor(config: Any) -> Processor:
    """The processor that a config asks for.

    Raises:
        ConfigError: nothing is registered under the name of a custom one.
    """
    return PROCESSORS[config.kind](config)


def _make_custom(config: CustomProcessorConfig) -> Processor:
    function, whole = _REGISTERED.get(config.name) or (load_entry_point(GROUP, config.name), False)
    if function is None:
        known = sorted({*_REGISTERED, *entry_points(GROUP)})
        near = get_close_matches(config.name, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else "give the file that registers it with --plugin"
        raise ConfigError(f"no processor {config.name!r} is registered; {hint}")
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
