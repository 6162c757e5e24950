"""Checks between keys. Each section of the YAML has its own beside its keys; `checks.py` runs them all.

Invariant: nothing a user wrote is bent or ignored silently. A check looks at a config whose defaults are filled, names
the other key and says what to write instead. To add one: a rule in the section it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ludus.config.base import Model
from ludus.config.problems import Contradiction, Path, dotted


def at(path: str | Path, text: str) -> Contradiction:
    """A contradiction at `train.steps`, or at a path with numbers in it."""
    return Contradiction(path=tuple(path.split(".")) if isinstance(path, str) else path, text=text)


def is_set(model: Model, key: str) -> bool:
    """Whether a key has another value than its default: a resolved config holds all defaults and must load again."""
    return bool(getattr(model, key) != type(model).model_fields[key].get_default(call_default_factory=True))


def no_effect(model: Model, path: str | Path, keys: str, why: str) -> Iterator[Contradiction]:
    """Those of the keys that are set although another key turns off what they set."""
    prefix = tuple(path.split(".")) if isinstance(path, str) else path
    return (at((*prefix, key), f"has no effect: {why}") for key in keys.split() if is_set(model, key))


def repeated(path: Path, names: Sequence[str]) -> Iterator[Contradiction]:
    """The entries of a list that stand in it already."""
    for i, name in enumerate(names):
        if name in names[:i]:
            first = dotted((*path, names.index(name)))
            yield at((*path, i), f"{name} is already there as {first}; write it once")
