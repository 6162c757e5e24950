"""`length`: the soft overlong punishment of DAPO (Yu et al. 2025, section 3.4).

0                                  length <= longest - buffer
(longest - buffer - length)/buffer in between
-1                                 length >= longest
"""

from __future__ import annotations

from collections.abc import Callable

from ludus.config import LengthRewardConfig
from ludus.errors import RewardError
from ludus.rewards.attempt import Attempt, Mark
from ludus.rewards.protocol import Instant


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
