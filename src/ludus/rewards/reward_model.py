"""`reward_model`: a language model with a scalar head says what a response is worth.

Two kinds of folder: a sequence classifier with one output (transformers), and a published version of one of our own
policies with a critic, whose value after the response's last word counts. Both are safetensors and run no code.

Invariant: every response is computed alone, in one thread, so its reward does not depend on what else is waiting.
"""

from __future__ import annotations

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor

from ludus.config import ModelRewardConfig
from ludus.errors import RewardError
from ludus.rewards.attempt import Attempt, Mark
from ludus.rewards.values import check_value


class ModelReward:
    """Asks a model."""

    def __init__(self, config: ModelRewardConfig) -> None:
        """
        Raises:
            ConfigError: there is no such model, or it has no scalar head.
        """
        from ludus.rewards.scalar_models import load_scalar_model

        self._config = config
        self._model = load_scalar_model(config)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reward-model")

    async def mark(self, attempt: Attempt) -> Mark:
        """The model's score."""
        score = await asyncio.get_running_loop().run_in_executor(self._thread, self._score, attempt)
        return Mark(value=score)

    async def close(self) -> None:
        """Let the thread go."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _score(self, attempt: Attempt) -> float:
        tokens = self._model.tokens(attempt.prompt, attempt.response)
        if len(tokens) > self._model.context:
            raise RewardError(
                f"prompt and response have {len(tokens)} tokens, and {self._config.path} takes {self._model.context}"
            )
        score = check_value(self._model.score(tokens))
        return 1 / (1 + math.exp(-max(min(score, 700.0), -700.0))) if self._config.squash else score
