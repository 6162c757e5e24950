"""Changes from the command line: `train.steps=1e6`, `league.opponents.0.weight=2`, `policy.network={kind: resnet}`.

The value is YAML, the key path is split at dots and a number counts the entries of a list from 0. One behind the last
entry adds one. `train.steps=9` counts for every stage, also where one says otherwise; `stages.1.train.steps=9` for one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ludus.config.loading.yaml_text import MAX_DEPTH, Document, read_yaml
from ludus.config.problems import Path, Place, Problem, dotted, shorten, show

# A name, or the number of a list's entry.
_KEY = re.compile(r"[A-Za-z_]\w*|[0-9]{1,6}", re.ASCII)

COMMAND_LINE = Place(source="command line")


def apply_overrides(document: Document, overrides: Sequence[str]) -> Document:
    """Give a document with the overrides in it, later ones over earlier ones; mistakes are in its problems."""
    content = document.content
    places = dict(document.places)
    problems = list(document.problems)
    for override in overrides:
        path, value, mistakes = _read(override)
        if not mistakes:
            content, mistakes = _put(content, path, value, path)
        if not mistakes:
            _mark(places, path)
            content, mistakes = _put_into_stages(content, places, path, value)
        problems += mistakes
    return replace(document, content=content, places=places, problems=problems)


def is_override(argument: str) -> bool:
    """Whether a word of the command line has the form `key.path=value`."""
    key, equals, _ = argument.partition("=")
    return bool(equals) and all(_KEY.fullmatch(part) for part in key.strip().split("."))


def _read(override: str) -> tuple[Path, Any, list[Problem]]:
    key, _, text = override.partition("=")
    if not is_override(override):
        return (), None, [_problem((), f"expected key.path=value, got {show(override)}")]
    path: Path = tuple(int(part) if part.isdecimal() else part for part in key.strip().split("."))
    if len(path) > MAX_DEPTH:
        return (), None, [_problem((), f"no such key: {shorten(dotted(path))}")]
    value = read_yaml(text, COMMAND_LINE.source)
    return path, value.content, [_problem((*path, *found.path), found.text) for found in value.problems]


def _put(node: Any, path: Path, value: Any, whole: Path) -> tuple[Any, list[Problem]]:
    """Return the node with the value at the path; nothing that exists is changed in place."""
    if not path:
        return value, []
    head, rest = path[0], path[1:]
    if isinstance(head, int) and isinstance(node, list | None):
        entries = list(node or ())
        if head > len(entries):
            return entries, [_problem(whole, f"there is no entry {head}; the list has {len(entries)}")]
        if head == len(entries):
            entries.append(None)
        entries[head], problems = _put(entries[head], rest, value, whole)
        return entries, problems
    if isinstance(node, dict | None):
        node = dict(node or {})
        node[str(head)], problems = _put(node.get(str(head)), rest, value, whole)
        return node, problems
    around = dotted(whole[: len(whole) - len(path)])
    kind = "a list; its entries are numbered from 0" if isinstance(node, list) else show(node)
    return node, [_problem(whole, f"{around} is {kind}")]


def _put_into_stages(content: Any, places: dict[Path, Place], path: Path, value: Any) -> tuple[Any, list[Problem]]:
    """Replace what stages say about a key of the whole run."""
    problems: list[Problem] = []
    stages = content.get("stages") if isinstance(content, dict) else None
    for index, stage in enumerate(stages if isinstance(stages, list) else ()):
        if path[0] not in ("stages", "name") and _says_otherwise(stage, path):
            inside: Path = ("stages", index, *path)
            content, mistakes = _put(content, inside, value, inside)
            problems += mistakes
            _mark(places, inside)
    return content, problems


def _says_otherwise(node: Any, path: Path) -> bool:
    """Whether something stands at the path, or a list or a plain value on the way to it."""
    for part in path:
        if not isinstance(node, dict):
            return True
        if str(part) not in node:
            return False
        node = node[str(part)]
    return True


def _mark(places: dict[Path, Place], path: Path) -> None:
    """What stands at the path, and the mappings that had to be made for it, now come from the command line."""
    for known in [known for known in places if known[: len(path)] == path]:
        del places[known]
    for end in range(1, len(path) + 1):
        places.setdefault(path[:end], COMMAND_LINE)


def _problem(path: Path, text: str) -> Problem:
    return Problem(place=COMMAND_LINE, path=path, text=text)
