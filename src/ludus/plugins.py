"""A user's own code, by entry point or `--plugin file.py`: one `Registry` for each kind of thing that it may add.

A config can only name what is registered; it can never name code to import. Every process of a run loads the same
files: a process that starts another passes on `plugin_files()`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import sys
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from ludus.errors import ConfigError
from ludus.plugin_frames import in_words, note_file, note_package

NAME = r"^[a-z][a-z0-9_]{0,31}$"
"""What a registered thing may be called."""

T = TypeVar("T")

_FILES: dict[str, None] = {}
_EXPECTED: dict[str, str] = {}


class Registry(Generic[T]):
    """Things of one kind, by name: those that ludus has, those of plugins, those of installed packages."""

    every: ClassVar[list[Registry[Any]]] = []
    """All registries whose rooms are imported."""

    def __init__(
        self,
        what: str,
        group: str,
        *,
        built_in: Mapping[str, T] | None = None,
        reserved: tuple[str, ...] = (),
        pattern: str = NAME,
        expected: str = "small letters, digits and _, at most 32",
    ) -> None:
        """An empty registry.

        Args:
            what: What they are called in errors.
            group: Of entry points.
            built_in: Those that ludus has.
            reserved: Names of others that it has, which are made elsewhere.
            pattern: Of names.
            expected: The same in words.
        """
        self.what = what
        self.group = group
        self.built_in: Mapping[str, T] = built_in or {}
        self._taken = (*self.built_in, *reserved)
        self.added: dict[str, T] = {}
        self._pattern, self._expected = pattern, expected
        self.every.append(self)

    def add(self, name: str, thing: T) -> None:
        """Make something known under a new name.

        Raises:
            ConfigError: it cannot have that name, or another thing has it.
        """
        if not re.fullmatch(self._pattern, name) or name in self._taken:
            taken = f"; taken are {', '.join(self._taken)}" if self._taken else ""
            raise ConfigError(f"{self.what} name {name!r}: expected a new name of {self._expected}{taken}")
        if self.added.setdefault(name, thing) != thing:
            raise ConfigError(f"{self.what} {name!r} is registered already, as something else")

    def get(self, name: str) -> T | None:
        """What is known under a name, or None."""
        for known in (self.built_in, self.added):
            if name in known:
                return known[name]
        thing: T | None = load_entry_point(self.group, name)
        return thing

    def find(self, name: str) -> T:
        """What is known under a name.

        Raises:
            ConfigError: nothing is.
        """
        if (thing := self.get(name)) is None:
            raise ConfigError(f"{self.what} {name!r}: {self.unknown(name)}")
        return thing

    def unknown(self, name: str) -> str:
        """What to tell whoever asked for a name that nothing has."""
        known = self.names()
        longer = [one for one in known if name and one.startswith(name)]
        if nearest := longer[:3] or get_close_matches(name, known, n=1, cutoff=0.5):
            return f"no such {self.what}; did you mean {' or '.join(nearest)}? Else: {plugin_hint()}"
        there_are = f"there are {', '.join(known)}; " if known else ""
        return f"no such {self.what}; {there_are}{plugin_hint()}"

    def names(self) -> list[str]:
        """Every name that is known."""
        return sorted({*self._taken, *self.added, *entry_points(self.group)})

    def __contains__(self, name: str) -> bool:
        return name in self._taken or name in self.added or name in entry_points(self.group)


def load_plugins(files: Iterable[str | Path]) -> None:
    """Run each file once, so that what it registers is known by name."""
    for file in files:
        path = Path(file).resolve()
        _load_file(path)
        _FILES[str(path)] = None


def plugin_files() -> list[str]:
    """The files that this process has loaded, in their order: what a process that it starts has to load, too."""
    return list(_FILES)


def expect_plugins(files: Mapping[str, str]) -> None:
    """The run at hand was started with these files: path, and what to say of it, such as `has changed since`.

    They are not loaded: what a directory names is never executed. Errors about unknown names say which to give.
    """
    _EXPECTED.clear()
    _EXPECTED.update(files)


def plugin_hint() -> str:
    """What to do about a name that nothing has: which files to give with --plugin."""
    missing = {path: note for path, note in _EXPECTED.items() if path not in _FILES}
    if not missing:
        return "one of your own needs --plugin FILE"
    notes = "".join(f" ({path} {note})" for path, note in missing.items() if note)
    return f"this run was started with a plugin; add {' '.join(f'--plugin {path}' for path in missing)}{notes}"


@cache
def _load_file(path: Path) -> None:
    if not path.is_file():
        raise ConfigError(f"--plugin {path}: no such file")
    name = f"ludus_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"--plugin {path}: expected a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    note_file(path)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"--plugin {path}: {in_words(error)}") from error


@cache
def entry_points(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    """Installed entry points of a group, by name; none is loaded yet."""
    return {point.name: point for point in importlib.metadata.entry_points(group=group)}


def load_entry_point(group: str, name: str) -> Any | None:
    """The object behind an entry point, or None when nothing of that name is installed."""
    point = entry_points(group).get(name)
    if point is None:
        return None
    note_package(point.module.partition(".")[0])
    return point.load()
