"""Bounded, safe YAML: text in, plain values and their places out.

Invariant: nothing in the text can run code, and time and memory are bounded whatever it holds: its size, depth and
number of values are limited, tags, anchors and aliases are refused, and a key may stand only once in its mapping.
Built on the events of `yaml.CSafeLoader`.

Plain (unquoted) scalars mean what the core schema of YAML 1.2 says: `no` and `on` are text, `1e-3` is a number, `010`
is ten and `1:30` is text. Two additions, both of which other YAML readers agree with: digits may be grouped
(`10_000_000`), and a whole number may be written with an exponent (`1e7`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from ludus.config.problems import Path, Place, Problem, printable, shorten, show

Scalar = str | int | float | bool | None

MAX_BYTES = 1_000_000
MAX_DEPTH = 32
MAX_NODES = 20_000
MAX_DIGITS = 300

# Characters that YAML does not allow, and line ends that editors do not count.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+(_[0-9]+)*")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_WHOLE_WITH_EXPONENT = re.compile(r"([-+]?[0-9]{1,20})[eE]\+?([0-9]{1,2})")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(_[0-9]+)*(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"([-+]?)\.(inf|Inf|INF)")
_NAN = frozenset({".nan", ".NaN", ".NAN"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a text says, where it says it, and what is wrong with it as YAML."""

    source: str
    content: Any = None
    places: dict[Path, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    is_whole: bool = True
    """False when reading stopped before the end: `content` is then not worth checking."""


class _Stop(Exception):
    """Carries the problem that ends the reading out of the recursion."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.text)
        self.problem = problem


def read_yaml(text: str | bytes, source: str) -> Document:
    """Read one YAML document. Never raises for what the text holds: mistakes are in `problems`."""
    try:
        decoded = _decode(text, source)
        builder = _Builder(source, _events(decoded, source))
        return builder.document()
    except _Stop as stop:
        return Document(source=source, problems=[stop.problem], is_whole=False)


def _decode(text: str | bytes, source: str) -> str:
    if len(text) > MAX_BYTES:
        raise _Stop(Problem(place=Place(source=source), text=f"too large: a config has at most {MAX_BYTES:,} bytes"))
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            place = Place(source=source, line=error.object[: error.start].count(b"\n") + 1)
            raise _Stop(Problem(place=place, text=f"not UTF-8 text (byte 0x{error.object[error.start]:02x})")) from None
    if bad := _CONTROL.search(text):
        place = Place(source=source, line=text[: bad.start()].count("\n") + 1)
        raise _Stop(Problem(place=place, text=f"character {ascii(bad[0])[1:-1]} is not allowed"))
    return text.removeprefix("\ufeff")


def _events(text: str, source: str) -> Iterator[yaml.Event]:
    try:
        yield from yaml.parse(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        raise _Stop(_syntax_problem(error, text, source)) from None
    except yaml.YAMLError as error:
        raise _Stop(Problem(place=Place(source=source, line=1), text=f"not YAML: {error}")) from None


def _syntax_problem(error: yaml.MarkedYAMLError, text: str, source: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    written = text.splitlines()[line] if line < len(text.splitlines()) else ""
    what = f"not YAML: {error.problem}" + (f" ({error.context})" if error.context else "")
    indent = written[: len(written) - len(written.lstrip())]
    if "\t" in indent or written[column : column + 1] == "\t":
        what = "a tab is used for indentation; use spaces"
    elif written[column : column + 1] in ("@", "`", "%"):
        what = f"a value cannot start with {written[column]}; put it in quotes"
    elif error.problem and "mapping values are not allowed" in error.problem:
        what = "a key is not expected here; check the indentation, or put a value that holds ': ' in quotes"
    return Problem(place=Place(source=source, line=line + 1, column=column + 1), text=what)


class _Builder:
    """Turns events into values. Problems that do not confuse what follows are collected; others stop it."""

    def __init__(self, source: str, events: Iterator[yaml.Event]) -> None:
        self.source = source
        self.events = events
        self.places: dict[Path, Place] = {}
        self.problems: list[Problem] = []
        self.nodes = 0

    def document(self) -> Document:
        content: Any = None
        try:
            content = self._first_document()
        except _Stop as stop:
            self.problems.append(stop.problem)
            return Document(source=self.source, places=self.places, problems=self.problems, is_whole=False)
        return Document(source=self.source, content=content, places=self.places, problems=self.problems)

    def _first_document(self) -> Any:
        content: Any = None
        documents = 0
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._stop(event, (), "a second document starts here; a config is one document")
            elif isinstance(event, yaml.NodeEvent):
                content = self._node(event, ())
        return content

    def _node(self, event: yaml.Event, path: Path) -> Any:
        self.places.setdefault(path, self._place(event))
        self._check_bounds(event, path)
        if isinstance(event, yaml.AliasEvent):
            self._note(event, path, f"alias *{shorten(event.anchor or '')} is not allowed; write the value out")
            return None
        self._check_plain(event, path)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path)
        return self._scalar(event, path)

    def _check_bounds(self, event: yaml.Event, path: Path) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            self._stop(event, (), f"more than {MAX_NODES:,} values; a config is smaller than that")
        if len(path) > MAX_DEPTH:
            self._stop(event, (), f"nested more than {MAX_DEPTH} levels deep")

    def _check_plain(self, event: Any, path: Path) -> None:
        if event.anchor is not None:
            self._note(event, path, f"anchor &{shorten(event.anchor)} is not allowed; write the value out")
        elif event.tag is not None:
            tag = shorten(printable(event.tag).replace("tag:yaml.org,2002:", "!!"))
            self._note(event, path, f"tag {tag} is not allowed; a config holds plain values only")

    def _sequence(self, path: Path) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self._node(event, (*path, len(items))))
        return items

    def _mapping(self, path: Path) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = self._key(event, path)
            if key in entries:
                self._note(event, (*path, key), f"given twice (first on line {self.places[(*path, key)].line})")
            self.places.setdefault((*path, key), self._place(event))
            entries[key] = self._node(next(self.events), (*path, key))
        return entries

    def _key(self, event: Any, path: Path) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            self._stop(event, path, "a key must be plain text")
        self._check_plain(event, path)
        self._check_text(event, path)
        return str(event.value)

    def _scalar(self, event: Any, path: Path) -> Any:
        self._check_text(event, path)
        if not event.implicit[0]:  # quoted, or a block of text
            return event.value
        try:
            return resolve_scalar(event.value)
        except TooManyDigits:
            self._note(event, path, f"number {shorten(event.value, 20)} has too many digits")
            return None

    def _check_text(self, event: Any, path: Path) -> None:
        if _CONTROL.search(event.value):
            self._note(event, path, f"{show(event.value)} holds a control character")

    def _place(self, event: yaml.Event) -> Place:
        mark = event.start_mark
        return Place(source=self.source, line=mark.line + 1 if mark else 1, column=mark.column + 1 if mark else 1)

    def _note(self, event: yaml.Event, path: Path, text: str) -> None:
        self.problems.append(Problem(place=self._place(event), path=path, text=text))

    def _stop(self, event: yaml.Event, path: Path, text: str) -> None:
        raise _Stop(Problem(place=self._place(event), path=path, text=text))


class TooManyDigits(ValueError):
    """A number is longer than any that a config can need."""


def resolve_scalar(text: str) -> Scalar:
    """Give a plain scalar its value.

    Raises:
        TooManyDigits: the text is a number of more than `MAX_DIGITS` characters.
    """
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if text[0] not in "+-.0123456789":
        return text
    return _resolve_number(text)


def _resolve_number(text: str) -> Scalar:
    if _FLOAT.fullmatch(text) or _HEX.fullmatch(text) or _OCTAL.fullmatch(text):
        if len(text) > MAX_DIGITS:
            raise TooManyDigits
        return _read_number(text)
    if infinite := _INFINITE.fullmatch(text):
        return -math.inf if infinite[1] == "-" else math.inf
    return math.nan if text in _NAN else text


def _read_number(text: str) -> int | float:
    if _INT.fullmatch(text):
        return int(text)
    if text.startswith(("0o", "0x")):
        return int(text, 0)
    if whole := _WHOLE_WITH_EXPONENT.fullmatch(text):
        return int(whole[1] + "0" * int(whole[2]))
    return float(text)
