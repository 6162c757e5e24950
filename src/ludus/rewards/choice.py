"""`choice`: the response chooses one of several options, by its letter or by its text."""

from __future__ import annotations

import re

from ludus.config import ChoiceRewardConfig
from ludus.errors import RewardError
from ludus.lm.extraction import MAX_REPLY_CHARS, extract
from ludus.rewards.attempt import Attempt, Mark
from ludus.rewards.finding import stated_answer
from ludus.rewards.protocol import Instant


class ChoiceReward(Instant):
    """Compares letters."""

    def __init__(self, config: ChoiceRewardConfig) -> None:
        self._config = config
        self._letter = re.compile(rf"(?<![A-Za-z0-9'])([{config.letters}])(?![A-Za-z0-9'])")

    async def mark(self, attempt: Attempt) -> Mark:
        """1 for the right option, else 0."""
        texts = self._texts(attempt)
        wanted = self._wanted(attempt, texts)
        chosen = self._chosen(attempt.response[-MAX_REPLY_CHARS:], texts)
        if chosen is None:
            return Mark(value=0.0, note="no option found")
        return Mark(value=float(chosen == wanted), note=f"chose {chosen}")

    def _texts(self, attempt: Attempt) -> list[str]:
        if self._config.choices is None:
            return []
        texts = attempt.need(self._config.choices)
        if not isinstance(texts, list) or not 0 < len(texts) <= len(self._config.letters):
            most = len(self._config.letters)
            raise RewardError(f"the task's field {self._config.choices!r} is no list of at most {most} options")
        return [str(text).strip() for text in texts]

    def _wanted(self, attempt: Attempt, texts: list[str]) -> str:
        answer, letters = attempt.need(self._config.answer), self._config.letters
        if isinstance(answer, int) and not isinstance(answer, bool) and 0 <= answer < len(letters):
            return letters[answer]
        text = str(answer).strip()
        if text.strip("()").upper() in tuple(letters):
            return text.strip("()").upper()
        if text in texts:
            return letters[texts.index(text)]
        raise RewardError(f"the task's field {self._config.answer!r} is no option: {text[:60]!r}")

    def _chosen(self, response: str, texts: list[str]) -> str | None:
        """The letter in a box, else the one that is said to be the answer, else the last one, else an option's text."""
        boxed = extract("boxed", response, None).move
        for place, is_first in ((boxed, True), (stated_answer(response) or "", True), (response, False)):
            found = self._letter.findall(place)
            if found:
                return str(found[0] if is_first else found[-1])
            named = self._named(place, texts)
            if named is not None:
                return named
        return None

    def _named(self, place: str, texts: list[str]) -> str | None:
        if not texts or not place:
            return None
        named = extract("choice", place, texts).move
        return self._config.letters[texts.index(named)] if named in texts else None
