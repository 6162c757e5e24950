"""`maths`: the answer in the response equals the task's as mathematics."""

from __future__ import annotations

from ludus.config import MathsRewardConfig
from ludus.rewards.attempt import Attempt, Mark
from ludus.rewards.finding import ANSWER, NUMBER, check_find, find
from ludus.rewards.maths.comparing import are_equal
from ludus.rewards.protocol import Instant


class MathsReward(Instant):
    """Compares answers."""

    def __init__(self, config: MathsRewardConfig) -> None:
        check_find(config.find, ANSWER, NUMBER)
        self._config = config

    async def mark(self, attempt: Attempt) -> Mark:
        """1 for one of the answers, else 0."""
        wanted = attempt.need(self._config.answer)
        found = find(self._config.find, attempt.response)
        if found is None:
            return Mark(value=0.0, note="no answer found")
        answers = wanted if isinstance(wanted, list) else [wanted]
        is_right = any(are_equal(found, str(answer), tolerance=self._config.tolerance) for answer in answers)
        return Mark(value=float(is_right), note=f"found {found[:200]!r}")
