"""`numeric`: the number in the response is the answer, within a tolerance. Computed exactly."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from ludus.config import NumericRewardConfig
from ludus.errors import RewardError
from ludus.rewards.attempt import Attempt, Mark
from ludus.rewards.finding import NUMBER, check_find, find, last_number
from ludus.rewards.protocol import Instant

MOST_DIGITS = 400
_NUMBER = re.compile(r"([-+]?)(\d*)(?:\.(\d*))?(?:[eE]([-+]?\d{1,4}))?")


class NumericReward(Instant):
    """Compares numbers."""

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


def read_number(text: str) -> Fraction | None:
    """A number such as `-1,234.5e6`; None when it is none, or too long to be one that was meant."""
    plain = text.strip().replace(",", "")
    match = _NUMBER.fullmatch(plain) if len(plain) <= MOST_DIGITS else None
    if match is None or not (match[2] or match[3]):
        return None
    exponent = int(match[4] or 0)
    if abs(exponent) > MOST_DIGITS:
        return None
    digits = int((match[2] or "") + (match[3] or ""))
    value = Fraction(digits) * Fraction(10) ** (exponent - len(match[3] or ""))
    return -value if match[1] == "-" else value


def _answer(value: Any, name: str) -> Fraction:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    number = read_number(repr(value)) if is_number else read_number(value) if isinstance(value, str) else None
    if number is None:
        raise RewardError(f"the task's field {name!r} is no number: {str(value)[:60]!r}")
    return number
