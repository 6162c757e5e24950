"""Regular expressions as programs of a small machine that never goes back; `linear_regex` runs them.

Python's own parser reads the pattern; what it finds is made into steps here. Invariant: every construct either means
what it means in `re`, or is refused: back-references, looking ahead or behind, and possessive or atomic groups are.
Add a construct to `_Builder` under the name that `re._constants` has for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any, Literal

MAX_PATTERN_CHARS = 256
MAX_STEPS = 2_000
"""Of a program; a counted repetition has its steps as often as it counts."""

Kind = Literal["char", "split", "jump", "save", "at", "match"]


class PatternRefused(ValueError):
    """Why a pattern is not taken."""


@dataclass(slots=True)
class Step:
    """One step of a program."""

    kind: Kind
    test: Callable[[str], bool] | None = None
    """`char`: whether this character may come next."""
    to: int = 0
    """`split`, `jump`: where it goes on, first choice; `save`: which slot."""
    otherwise: int = 0
    """`split`: second choice."""
    place: str = ""
    """`at`: which place of the text this must be."""


def compile_program(pattern: str) -> tuple[list[Step], int]:
    """The steps of a pattern, and how many groups it has.

    Raises:
        PatternRefused: it is no regular expression, or has what cannot be matched without going back.
    """
    if not pattern or len(pattern) > MAX_PATTERN_CHARS:
        raise PatternRefused(f"expected a pattern of 1 to {MAX_PATTERN_CHARS} characters")
    try:
        tree = _parser.parse(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise PatternRefused(f"not a regular expression ({error})") from error
    builder = _Builder()
    builder.build(tree, tree.state.flags)
    builder.add(Step("match"))
    return builder.steps, tree.state.groups - 1


class _Builder:
    def __init__(self) -> None:
        self.steps: list[Step] = []

    def add(self, step: Step) -> Step:
        if len(self.steps) >= MAX_STEPS:
            raise PatternRefused("the pattern is too large; it counts too far")
        self.steps.append(step)
        return step

    def build(self, tree: Any, flags: int) -> None:
        for operation, argument in tree:
            name = str(operation)
            method = getattr(self, f"_{name.lower()}", None)
            if method is None:
                raise PatternRefused(f"{name.lower()} is not taken, because it cannot be matched in linear time")
            method(argument, flags)

    def _literal(self, code: int, flags: int) -> None:
        self.add(Step("char", test=_member([(_constants.LITERAL, code)], flags)))

    def _not_literal(self, code: int, flags: int) -> None:
        self.add(Step("char", test=_member([(_constants.NEGATE, None), (_constants.LITERAL, code)], flags)))

    def _in(self, items: list[tuple[Any, Any]], flags: int) -> None:
        self.add(Step("char", test=_member(items, flags)))

    def _any(self, argument: None, flags: int) -> None:
        self.add(Step("char", test=(lambda sign: True) if flags & re.DOTALL else (lambda sign: sign != "\n")))

    def _at(self, place: Any, flags: int) -> None:
        name = str(place)
        if flags & re.MULTILINE and name in ("AT_BEGINNING", "AT_END"):
            name += "_LINE"
        if flags & re.ASCII and "BOUNDARY" in name:
            raise PatternRefused("\\b with the flag (?a) is not taken")
        self.add(Step("at", place=name))

    def _subpattern(self, argument: Any, flags: int) -> None:
        group, added, removed, tree = argument
        if group == 1:
            self.add(Step("save", to=2))
        self.build(tree, (flags | added) & ~removed)
        if group == 1:
            self.add(Step("save", to=3))

    def _branch(self, argument: Any, flags: int) -> None:
        *first, last = argument[1]
        jumps = []
        for tree in first:
            split = self.add(Step("split", to=len(self.steps) + 1))
            self.build(tree, flags)
            jumps.append(self.add(Step("jump")))
            split.otherwise = len(self.steps)
        self.build(last, flags)
        for jump in jumps:
            jump.to = len(self.steps)

    def _max_repeat(self, argument: Any, flags: int, *, is_greedy: bool = True) -> None:
        fewest, most, tree = argument
        for _ in range(fewest):
            self.build(tree, flags)
        if most == _constants.MAXREPEAT:
            start = len(self.steps)
            split = self.add(Step("split"))
            self.build(tree, flags)
            self.add(Step("jump", to=start))
            _choose(split, start + 1, len(self.steps), is_greedy=is_greedy)
            return
        splits = []
        for _ in range(most - fewest):
            splits.append((self.add(Step("split")), len(self.steps)))
            self.build(tree, flags)
        for split, inside in splits:
            _choose(split, inside, len(self.steps), is_greedy=is_greedy)

    def _min_repeat(self, argument: Any, flags: int) -> None:
        self._max_repeat(argument, flags, is_greedy=False)


def _choose(split: Step, inside: int, after: int, *, is_greedy: bool) -> None:
    split.to, split.otherwise = (inside, after) if is_greedy else (after, inside)


def _member(items: list[tuple[Any, Any]], flags: int) -> Callable[[str], bool]:
    """Whether a character belongs to a set."""
    is_negated = any(str(kind) == "NEGATE" for kind, _ in items)
    tests = [_single(str(kind), argument, flags) for kind, argument in items if str(kind) != "NEGATE"]

    def test(sign: str) -> bool:
        forms = {sign, sign.lower(), sign.upper()} if flags & re.IGNORECASE else {sign}
        return any(each(form) for form in forms if len(form) == 1 for each in tests) != is_negated

    return test


def _single(kind: str, argument: Any, flags: int) -> Callable[[str], bool]:
    if kind == "LITERAL":
        return lambda sign: ord(sign) == argument
    if kind == "RANGE":
        return lambda sign: argument[0] <= ord(sign) <= argument[1]
    if kind == "CATEGORY" and str(argument) in _CATEGORIES:
        one = re.compile(_CATEGORIES[str(argument)], flags & re.ASCII)
        return lambda sign: one.match(sign) is not None
    raise PatternRefused(f"{kind.lower()} in a set is not taken")


_CATEGORIES = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}
