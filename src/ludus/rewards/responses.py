"""Rewards that read the response: `exact`, `numeric`, `maths` and `choice` find an answer in it and compare it with the
task's; `format` and `length` look at its form.

All are linear in the length of a response, whatever it holds; answers are looked for at its end only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from ludus.config.sections.rewards import (
    ChoiceRewardConfig,
    ExactRewardConfig,
    LengthRewardConfig,
    MathsRewardConfig,
    NumericRewardConfig,
    ResponseFormatRewardConfig,
)
from ludus.errors import ConfigError, RewardError
from ludus.lm.extraction import MAX_REPLY_CHARS, check_extraction, extract
from ludus.lm.linear_regex import compile_pattern
from ludus.rewards.attempt import Attempt, Instant, Mark, Reward
from ludus.rewards.expressions import read_number
from ludus.rewards.maths import are_equal

ANSWER, NUMBER = "answer", "number"
"""Ways of this room, besides those of `ludus.lm.extraction`."""
MOST_ANSWER_CHARS = 1_000
"""A longer answer is none."""

_STATED = re.compile(r"####|\banswer\b\s{0,4}(?:is\b\s{0,2}:?|[:=])", re.IGNORECASE)
_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{1,4})?")
_CLOSING = " \t.!,;:*"


def find(how: str, response: str) -> str | None:
    """The answer in a response; None when there is none."""
    text = response[-MAX_REPLY_CHARS:]
    if how == ANSWER:
        found = find_answer(text)
    elif how == NUMBER:
        found = last_number(text)
    else:
        extracted = extract(how, text, None)
        found = extracted.move if extracted.format_ok else None
    return found.strip() if found is not None and len(found) <= MOST_ANSWER_CHARS else None


def check_find(how: str, *own: str) -> None:
    """Raise `ConfigError` when there is no such way; `own` are those of this room that are allowed."""
    if how in own:
        return
    try:
        check_extraction(how)
    except ConfigError as error:
        names = ", ".join((*own, "whole", "boxed", "bracket", "last_line"))
        reason = str(error).partition(": ")[2]
        raise ConfigError(f"find {how!r}: {reason} (ways to find an answer: {names}, regex:...)") from error
    if how == "choice":
        raise ConfigError("find 'choice': rewards know no legal moves; use a reward of kind choice")


def find_answer(text: str) -> str | None:
    """The last boxed answer, else what was last said to be the answer, else the last number."""
    boxed = extract("boxed", text, None)
    if boxed.format_ok:
        return boxed.move
    return stated_answer(text) or last_number(text)


def stated_answer(text: str) -> str | None:
    """The rest of the line after the last "answer is", "answer:" or "####"."""
    last = _last(_STATED, text)
    return None if last is None else text[last.end() :].partition("\n")[0].strip(_CLOSING) or None


def last_number(text: str) -> str | None:
    """The last number."""
    last = _last(_NUMBER, text)
    return None if last is None else last[0].rstrip(",")


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    last = None
    for last in pattern.finditer(text):  # noqa: B007 - the last one is wanted
        pass
    return last


class AnswerReward(Instant):
    """`exact` and `maths`: compares answers as texts, or as mathematics. Space around them does not count."""

    def __init__(self, config: ExactRewardConfig | MathsRewardConfig) -> None:
        check_find(config.find, *((ANSWER, NUMBER) if isinstance(config, MathsRewardConfig) else ()))
        self._config = config

    async def mark(self, attempt: Attempt) -> Mark:
        """1 for one of the answers, else 0."""
        wanted = attempt.need(self._config.answer)
        found = find(self._config.find, attempt.response)
        if found is None:
            return Mark(value=0.0, note="no answer found")
        answers = wanted if isinstance(wanted, list) else [wanted]
        is_right = any(self._are_same(found, str(answer)) for answer in answers)
        return Mark(value=float(is_right), note=f"found {found[:200]!r}")

    def _are_same(self, found: str, answer: str) -> bool:
        if isinstance(self._config, MathsRewardConfig):
            return are_equal(found, answer, tolerance=self._config.tolerance)
        found, answer = found.strip(), answer.strip()
        return found.casefold() == answer.casefold() if self._config.ignore_case else found == answer


class NumericReward(Instant):
    """Compares numbers within a tolerance, exactly."""

    def __init__(self, config: NumericRewardConfig) -> None:
        check_find(config.find, NUMBER)
        self._config = config
        self._tolerance = Fraction(config.tolerance)
        self._relative = Fraction(config.relative)

    async def mark(self, attempt: Attempt) -> Mark:
        """1 for the number, else 0."""
        wanted = _answer(attempt.need(self._config.answer), self._config.answer)
        found = find(self._config.find, attempt.response)
        text = None if found is None else last_number(found)
        number = None if text is None else read_number(text)
        if number is None:
            return Mark(value=0.0, note="no number found")
        most = self._tolerance + self._relative * abs(wanted)
        return Mark(value=float(abs(number - wanted) <= most), note=f"found {text}"[:200])


def _answer(value: Any, name: str) -> Fraction:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    number = read_number(repr(value)) if is_number else read_number(value) if isinstance(value, str) else None
    if number is None:
        raise RewardError(f"the task's field {name!r} is no number: {str(value)[:60]!r}")
    return number


class ChoiceReward(Instant):
    """Compares the chosen option, by its letter or by its text."""

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
    """The soft overlong punishment of DAPO (Yu et al. 2025, section 3.4).

    0                                  length <= longest - buffer
    (longest - buffer - length)/buffer in between
    -1                                 length >= longest
    """

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


BY_RESPONSE: dict[str, Callable[[Any], Reward]] = {
    "exact": AnswerReward,
    "numeric": NumericReward,
    "maths": AnswerReward,
    "choice": ChoiceReward,
    "format": FormatReward,
}
"""Rewards that need nothing besides their configs, by kind."""
