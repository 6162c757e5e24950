"""Regular expressions from a config file, matched against what a language model wrote, in bounded time.

All ways to match are followed side by side, one character after the other (Thompson, Pike), so nothing that a model
writes can make a pattern slow. Invariant: matches are those of `re`, save where a pattern matches the empty text, and
depend on pattern and text alone; after `MAX_WORK` steps those found so far count.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from ludus.errors import ConfigError
from ludus.lm.regex_program import PatternRefused, Step, compile_program

MAX_TEXT_CHARS = 4_096
"""Only the end of a text is looked at."""
MAX_WORK = 1_000_000

Slots = tuple[int, int, int, int]
"""Start and end of the match, and of its first group; -1 where there is none."""
Thread = tuple[int, Slots]


class LinearRegex:
    """A pattern that can be looked for."""

    def __init__(self, pattern: str) -> None:
        self._steps, self._groups = compile_program(pattern)

    def last(self, text: str) -> str | None:
        """The first group of the last match, or all of it when there is no group; None when nothing matches."""
        run = _Run(self._steps, text[-MAX_TEXT_CHARS:])
        found = None
        for found in run.matches():  # noqa: B007 - the last one is wanted
            pass
        if found is None:
            return None
        start, end = found[2:] if self._groups else found[:2]
        return run.text[start:end] if start >= 0 else ""


class _Run:
    """A program at work on one text."""

    def __init__(self, steps: list[Step], text: str) -> None:
        self.text = text
        self._steps = steps
        self._work = 0

    def matches(self) -> Iterator[Slots]:
        """The matches from left to right; none begins before the one before it ends."""
        place = 0
        while (slots := self._search(place)) is not None:
            yield slots
            place = max(slots[1], slots[0] + 1)

    def _search(self, start: int) -> Slots | None:
        """The leftmost match from `start` on."""
        threads: list[Thread] = []
        found: Slots | None = None
        for place in range(start, len(self.text) + 1):
            if self._work > MAX_WORK or (found is not None and not threads):
                break
            if found is None:
                self._follow(threads, {number for number, _ in threads}, 0, (place, -1, -1, -1), place)
            found, threads = self._advance(threads, found, place)
        return found

    def _advance(self, threads: list[Thread], found: Slots | None, place: int) -> tuple[Slots | None, list[Thread]]:
        """Take one character. Threads come in the order in which `re` would try them; a match ends those after it."""
        following: list[Thread] = []
        seen: set[int] = set()
        for number, slots in threads:
            step = self._steps[number]
            if step.kind == "match":
                return (slots[0], place, *slots[2:]), following
            if place < len(self.text) and step.test is not None and step.test(self.text[place]):
                self._follow(following, seen, number + 1, slots, place + 1)
        return found, following

    def _follow(self, threads: list[Thread], seen: set[int], number: int, slots: Slots, place: int) -> None:
        """Add the threads that can be reached without taking a character."""
        waiting = [(number, slots)]
        while waiting:
            number, slots = waiting.pop()
            if number in seen:
                continue
            seen.add(number)
            self._work += 1
            step = self._steps[number]
            match step.kind:
                case "jump":
                    waiting.append((step.to, slots))
                case "split":
                    waiting += [(step.otherwise, slots), (step.to, slots)]
                case "save":
                    waiting.append((number + 1, _saved(slots, step.to, place)))
                case "at" if _is_at(step, self.text, place):
                    waiting.append((number + 1, slots))
                case "char" | "match":
                    threads.append((number, slots))


@lru_cache(maxsize=64)
def compile_pattern(pattern: str) -> LinearRegex:
    """Compile a pattern, or say in one sentence why it is not taken."""
    try:
        return LinearRegex(pattern)
    except PatternRefused as refused:
        raise ConfigError(f"action 'regex:{pattern[:80]}': {refused}") from refused


def _saved(slots: Slots, slot: int, place: int) -> Slots:
    return (*slots[:2], place, slots[3]) if slot == 2 else (*slots[:3], place)


def _is_at(step: Step, text: str, place: int) -> bool:
    before, after = text[place - 1 : place] if place else "", text[place : place + 1]
    match step.place:
        case "AT_BEGINNING" | "AT_BEGINNING_STRING":
            return not before
        case "AT_BEGINNING_LINE":
            return not before or before == "\n"
        case "AT_END_STRING":
            return not after
        case "AT_END":
            return not after or text[place:] == "\n"
        case "AT_END_LINE":
            return not after or after == "\n"
        case "AT_BOUNDARY" | "AT_NON_BOUNDARY":
            return (_is_word(before) != _is_word(after)) == (step.place == "AT_BOUNDARY")
    return False


def _is_word(sign: str) -> bool:
    return sign.isalnum() or sign == "_"
