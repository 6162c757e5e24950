"""A judge's opinion as part of the reward: what each learning seat said in a game, scored by the rubric of the config.

Invariant: the game's result stays the game's. A score is added to what the seat's replies are given, and nowhere else;
a judge that fails raises, which costs the episode.
"""

from __future__ import annotations

import time

from ludus.config import JudgeConfig
from ludus.explore.runners.text_episode import TextEpisode
from ludus.inference.judge import Judge
from ludus.inference.openai.engine import OpenAIEngine
from ludus.records import derive_seed

MOST_TOKENS = 512
"""Of a verdict, where the config does not say."""


class Judging:
    """Judges episodes, and counts its verdicts."""

    def __init__(self, config: JudgeConfig, engine: OpenAIEngine, *, max_tokens: int | None) -> None:
        self.verdicts = 0
        self.score_sum = 0.0
        self._weight = config.weight
        self._max_tokens = max_tokens or MOST_TOKENS
        self._judge = Judge(engine, rubric=config.rubric, lowest=config.lowest, highest=config.highest)

    async def judge(self, played: TextEpisode, *, ends: float) -> None:
        """Give the learning seats of an episode that ended well what the judge thinks of them.

        Args:
            ends: when the episode's time is up, by `time.monotonic`.

        Raises:
            RewardError, PolicyError, TimeoutExceeded: there is no verdict.
        """
        task = played.task
        for seat, conversation in played.conversations.items():
            if not task.seats[seat].learns or not conversation.replies:
                continue
            verdict = await self._judge.score(
                conversation.transcript(),
                seed=derive_seed(task.seed, "judge", task.attempt, seat),
                deadline_s=max(ends - time.monotonic(), 0.0),
                max_tokens=self._max_tokens,
            )
            self.verdicts += 1
            self.score_sum += verdict.score
            conversation.add_bonus(self._weight * verdict.score)
