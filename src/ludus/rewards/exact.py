"""`exact`: the response is the answer, to the letter."""

from __future__ import annotations

from ludus.config import ExactRewardConfig
from ludus.rewards.attempt import Attempt, Mark
from ludus.rewards.finding import check_find, find
from ludus.rewards.protocol import Instant


class ExactReward(Instant):
    """Compares texts; space around them does not count."""

    def __init__(self, config: ExactRewardConfig) -> None:
        check_find(config.find)
        self._config = config

    async def mark(self, attempt: Attempt) -> Mark:
        """1 for one of the answers, else 0."""
        wanted = attempt.need(self._config.answer)
        found = find(self._config.find, attempt.response)
        if found is None:
            return Mark(value=0.0, note="no answer found")
        answers = wanted if isinstance(wanted, list) else [wanted]
        is_right = any(self._plain(found) == self._plain(str(answer)) for answer in answers)
        return Mark(value=float(is_right), note=f"found {found[:200]!r}")

    def _plain(self, text: str) -> str:
        return text.strip().casefold() if self._config.ignore_case else text.strip()
