"""What is wrong with a config, and where: one line per mistake, all of them at once.

Invariant: a line reads `place  key.path: what was expected, what was found`, with the places of one report aligned.
Nothing a user wrote is bent or ignored silently. A check between keys looks at a config whose defaults are filled,
names the other key and says what to write instead. To add one: a rule in its section; `derive.py` runs them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from ludus.config.base import Model
from ludus.errors import ConfigError

Path = tuple[str | int, ...]

MAX_PROBLEMS = 50
MAX_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a value was written. Without a line, the source is not a file (`command line`)."""

    source: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One mistake."""

    place: Place
    path: Path = ()
    text: str

    @property
    def sentence(self) -> str:
        """The problem without its place."""
        return f"{shorten(dotted(self.path), MAX_SHOWN * 2)}: {self.text}" if self.path else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Settings that cannot hold together: the key to report it at, the other key, and what to do."""

    path: Path
    text: str


class Unrepeatable(ValueError):
    """What was found may be a secret: the message says what was expected, and nobody repeats the value."""


def dotted(path: Path) -> str:
    """Write a key path as the command line takes it: `league.opponents.0.weight`."""
    return ".".join(printable(part) if isinstance(part, str) else str(part) for part in path)


def printable(text: str) -> str:
    """Escape what would break a line or a terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def shorten(text: str, limit: int = MAX_SHOWN) -> str:
    """Cut long text; what is cut is shown as an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def show(value: Any) -> str:
    """Write a value as a person would in YAML, short and on one line."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return '"' + shorten(printable(value)) + '"'
        case float() | int():
            return shorten(repr(value))
        case list() | tuple():
            return "a list" if value else "an empty list"
        case dict():
            return "a mapping" if value else "an empty mapping"
        case _:
            return type(value).__name__


def nearest_place(places: Mapping[Path, Place], path: Path, default: Place) -> Place:
    """Find where a path, or the closest thing around it, was written."""
    for end in range(len(path), -1, -1):
        if path[:end] in places:
            return places[path[:end]]
    return default


def report(problems: Iterable[Problem]) -> list[str]:
    """Put problems into lines: in the order of the file, the command line last, places aligned."""
    ordered = sorted(problems, key=lambda problem: (problem.place.line is None, problem.place.line or 0))
    shown = ordered[:MAX_PROBLEMS]
    width = max((len(str(problem.place)) for problem in shown), default=0)
    lines = [f"{problem.place!s:<{width}}  {problem.sentence}" for problem in shown]
    if len(ordered) > len(shown):
        lines.append(f"… and {len(ordered) - len(shown)} more problems")
    return lines


def refusal(problems: Iterable[Problem]) -> ConfigError:
    """The error that holds all problems at once."""
    return ConfigError(*report(problems))


CLOSE = 0.6


def nearest_word(word: str, words: Iterable[str]) -> str | None:
    """The word that is spelled most like this one, if any is close."""
    score, best = max(((likeness(word, other), other) for other in words), default=(0.0, ""))
    return best if score >= CLOSE else None


def likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one.lower(), other.lower()).ratio()


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
