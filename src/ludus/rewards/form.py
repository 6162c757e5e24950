"""`format`: the response has the form that was asked for. Linear in its length."""

from __future__ import annotations

import re

from ludus.config import ResponseFormatRewardConfig
from ludus.errors import ConfigError
from ludus.lm.linear_regex import MAX_TEXT_CHARS, compile_pattern
from ludus.lm.regex_program import PatternRefused, compile_program
from ludus.rewards.attempt import Attempt, Mark
from ludus.rewards.protocol import Instant

_BEGINNINGS = ("AT_BEGINNING", "AT_BEGINNING_STRING")


class FormatReward(Instant):
    """Looks for a pattern, or for tags."""

    def __init__(self, config: ResponseFormatRewardConfig) -> None:
        self._tags = config.tags
        if config.pattern is not None:
            _check(config.pattern)
            self._pattern = compile_pattern(config.pattern)
        if config.tags:
            self._marks = re.compile(rf"</?(?:{'|'.join(config.tags)})>")

    async def mark(self, attempt: Attempt) -> Mark:
        """1 for the form, else 0."""
        if self._tags:
            return Mark(value=float(self._has_tags(attempt.response)))
        return Mark(value=float(self._pattern.last(attempt.response) is not None))

    def _has_tags(self, response: str) -> bool:
        """Whether the tags are there, each once, in order, with nothing outside but space."""
        wanted = [mark for tag in self._tags for mark in (f"<{tag}>", f"</{tag}>")]
        found = list(self._marks.finditer(response))
        if [match[0] for match in found] != wanted:
            return False
        places = [0, *(place for match in found for place in match.span()), len(response)]
        outside = [response[places[i] : places[i + 1]] for i in range(0, len(places), 4)]
        return not any(text.strip() for text in outside)


def _check(pattern: str) -> None:
    try:
        steps, _ = compile_program(pattern)
    except PatternRefused as refused:
        raise ConfigError(f"pattern {pattern[:80]!r}: {refused}") from refused
    if any(step.place in _BEGINNINGS for step in steps):
        raise ConfigError(
            f"pattern {pattern[:80]!r}: it looks at the beginning of a response, and only the last "
            f"{MAX_TEXT_CHARS:,} characters are searched; use tags, or leave ^ out"
        )
