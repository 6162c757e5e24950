"""`judge`: the opinion of a model behind an endpoint, by a rubric.

Invariant: the response is shown between two marks that its author could not know, and the judge is told it is data.
"""

from __future__ import annotations

from hashlib import blake2b

from ludus.config.sections.rewards import JudgeRewardConfig
from ludus.inference.judge import Judge
from ludus.inference.openai.engine import OpenAIEngine
from ludus.records import derive_seed
from ludus.rewards.attempt import MOST_NOTE, Attempt, Instant, Mark

MOST_SHOWN_CHARS = 100_000
"""Of a response; its end is what matters."""


class JudgeReward(Instant):
    """Asks an endpoint; the engine is whose it was, and is not closed here."""

    def __init__(self, config: JudgeRewardConfig, engine: OpenAIEngine) -> None:
        self._config = config
        self._judge = Judge(engine, rubric=config.rubric, lowest=config.lowest, highest=config.highest)

    async def mark(self, attempt: Attempt) -> Mark:
        """The judge's score, from `lowest` to `highest`, and its reasons."""
        config = self._config
        verdict = await self._judge.score(
            show(attempt, answer=None if config.answer is None else attempt.need(config.answer)),
            seed=derive_seed(attempt.seed, "judge"),
            deadline_s=config.limit_s,
            max_tokens=config.max_tokens,
        )
        return Mark(value=verdict.score, note=verdict.reason[-MOST_NOTE:])


def show(attempt: Attempt, *, answer: object | None) -> str:
    """What the judge gets to read."""
    response = attempt.response[-MOST_SHOWN_CHARS:]
    mark = "=" * 8 + blake2b(f"{attempt.seed}/{response}".encode(), digest_size=8).hexdigest()
    reference = "" if answer is None else f"The reference answer:\n{answer}\n\n"
    return (
        f"The task:\n{attempt.prompt}\n\n{reference}"
        f"The response to judge stands between two lines {mark}:\n{mark}\n{response}\n{mark}"
    )
