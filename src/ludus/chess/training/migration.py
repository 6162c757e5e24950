"""Weights of one network for another: what fits by name and shape is kept, the rest begins afresh, and all is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.errors import ConfigError

Weights = dict[str, NDArray[Any]]


@dataclass(slots=True, kw_only=True)
class Migration:
    """The new weights, and what became of each tensor."""

    weights: Weights
    kept: list[str] = field(default_factory=list)
    fresh: list[str] = field(default_factory=list)
    """Begin as in a new network: the old one has nothing of this name and shape."""
    dropped: list[str] = field(default_factory=list)
    """Of the old network; the new one has no place for them."""
    misfits: list[str] = field(default_factory=list)
    """Same name, other shape: those of the old network are dropped."""

    def counts(self) -> dict[str, int]:
        """Tensors by fate."""
        return {name: len(getattr(self, name)) for name in ("kept", "fresh", "misfits", "dropped")}


def parse_renames(texts: Sequence[str]) -> dict[str, str]:
    """`OLD=NEW` pairs: a tensor's name, or the beginning of names up to a dot."""
    renames = {}
    for text in texts:
        old, separator, new = text.partition("=")
        if not separator or not old or not new:
            raise ConfigError(f"--rename {text}: write OLD=NEW, as policy.vanilla=policy.soft")
        renames[old] = new
    return renames


def migrate(old: Mapping[str, Any], fresh: Mapping[str, Any], renames: Mapping[str, str]) -> Migration:
    """Put old weights into a fresh network.

    Raises:
        ConfigError: a rename names nothing in the old network, or nothing in the new one.
    """
    named = _renamed(old, fresh, renames)
    result = Migration(weights={})
    for name, tensor in fresh.items():
        theirs = named.get(name)
        if theirs is None:
            result.fresh.append(f"{name} {_shape(tensor)}")
        elif np.shape(theirs) != np.shape(tensor):
            result.misfits.append(f"{name} {_shape(theirs)} -> {_shape(tensor)}")
        else:
            result.kept.append(name)
        fits = theirs is not None and np.shape(theirs) == np.shape(tensor)
        result.weights[name] = np.asarray(theirs if fits else tensor, np.float32)
    result.dropped = [f"{name} {_shape(tensor)}" for name, tensor in named.items() if name not in fresh]
    return result


def _renamed(old: Mapping[str, Any], fresh: Mapping[str, Any], renames: Mapping[str, str]) -> dict[str, Any]:
    for before, after in renames.items():
        for side, names, wanted in (("old", old, before), ("new", fresh, after)):
            if not any(_is_below(name, wanted) for name in names):
                raise ConfigError(f"--rename {before}={after}: the {side} network has nothing called {wanted}")
    moved = {}
    for name, tensor in old.items():
        prefix = next((each for each in renames if _is_below(name, each)), None)
        moved[name if prefix is None else renames[prefix] + name[len(prefix) :]] = tensor
    return moved


def _is_below(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(f"{prefix}.")


def _shape(tensor: Any) -> str:
    return "x".join(map(str, np.shape(tensor))) or "scalar"
