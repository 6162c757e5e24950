"""`format`: the response has the form that was asked for. Linear in its length."""

from __future__ import annotations

import re

from ludus.config import ResponseFormatRewardConfig
from ludus.lm.linear_regex import compile_pattern
from ludus.rewards.attempt import Attempt, Mark
from ludus.rewards.protocol import Instant


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
