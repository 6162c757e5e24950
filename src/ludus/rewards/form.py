"""Rewards for the form of a response, whatever it says: `format` (linear in its length) and `length`."""

from __future__ import annotations

import re
from collections.abc import Callable

from ludus.config.sections.rewards import LengthRewardConfig, ResponseFormatRewardConfig
from ludus.errors import RewardError
from ludus.lm.linear_regex import compile_pattern
from ludus.rewards.attempt import Attempt, Instant, Mark


class FormatReward(Instant):
    """Looks for a pattern, or for tags."""

    def __init__(self, config: ResponseFormatRewardConfig) -> None:
        self._tags = config.tags
        if config.pattern is not None:
            self._pattern = compile_pattern(config.pattern)
        if config.tags:
            self._marks = re.compile(rf"</?(?:{'|'.join(config.tags)})>")

    async def mark(self, attempt: Attempt) -> Mark:
        """1 for the form, else 0."""
        if self._tags:
            return Mark(value=float(self._has_tags(attempt.response)))
        return Mark(value=float(self._pattern.is_in(attempt.response)))

    def _has_tags(self, response: str) -> bool:
        """Whether the tags are there, each once, in order, with nothing outside but space."""
        wanted = [mark for tag in self._tags for mark in (f"<{tag}>", f"</{tag}>")]
        found = list(self._marks.finditer(response))
        if [match[0] for match in found] != wanted:
            return False
        places = [0, *(place for match in found for place in match.span()), len(response)]
        outside = [response[places[i] : places[i + 1]] for i in range(0, len(places), 4)]
        return not any(text.strip() for text in outside)


class LengthReward(Instant):
    """Measures a response."""

    def __init__(self, config: LengthRewardConfig, count_tokens: Callable[[str], int] | None = None) -> None:
        """`count_tokens` is for attempts that do not say how many tokens they have."""
        self._config = config
        self._count_tokens = count_tokens

    async def mark(self, attempt: Attempt) -> Mark:
        """0 for a response that is short enough, down to -1."""
        length, config = self._length(attempt), self._config
        over = length - (config.longest - config.buffer)
        return Mark(value=0.0 - min(max(over, 0) / config.buffer, 1.0), note=f"{length} {config.unit}")

    def _length(self, attempt: Attempt) -> int:
        match self._config.unit:
            case "characters":
                return len(attempt.response)
            case "words":
                return len(attempt.response.split())
        if attempt.tokens is not None:
            return attempt.tokens
        if self._count_tokens is None:
            raise RewardError("nobody said how many tokens the response has; measure it in characters or words")
        return self._count_tokens(attempt.response)
