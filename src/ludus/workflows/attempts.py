"""`attempts`: the policy is told that its answer was wrong, and tries again.

Invariant: an attempt is right when the run's rewards say so; the policy learns only that it was not, never the answer,
unless the feedback's template gives it away.
"""

from __future__ import annotations

from ludus.config import AttemptsConfig
from ludus.records import Task
from ludus.workflows.outcome import Outcome
from ludus.workflows.protocol import KeepsNothing
from ludus.workflows.rollout_model import OutOfRoom, RolloutModel
from ludus.workflows.templates import fill


class Attempts(KeepsNothing):
    """Asks again and again."""

    def __init__(self, config: AttemptsConfig) -> None:
        self._config = config

    async def run(self, task: Task, model: RolloutModel) -> Outcome:
        """Ask until an attempt is right, or there were enough."""
        config = self._config
        chat, message = model.chat(config.system), fill(config.template, task.inputs)
        scores: list[float] = []
        reply, is_right = "", False
        while len(scores) < config.attempts and not is_right:
            try:
                reply = await chat.say(message)
            except OutOfRoom:
                if not scores:
                    raise
                break
            score = (await model.score(reply)).total
            is_right = score >= config.right_from
            scores.append(score * config.discount ** len(scores))
            message = fill(config.feedback, task.inputs)
        metrics = {
            "attempts": len(scores),
            "right": float(is_right),
            "right_at_once": float(is_right and len(scores) == 1),
        }
        truncated = chat.is_cut and not is_right
        if config.credit == "each":
            return Outcome(response=reply, reward=0.0, step_rewards=scores, metrics=metrics, truncated=truncated)
        worth = max(scores) if config.credit == "best" else scores[-1]
        return Outcome(response=reply, reward=worth, metrics=metrics, truncated=truncated)
