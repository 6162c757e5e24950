"""`single_turn`: one question, one reply."""

from __future__ import annotations

from ludus.config import SingleTurnConfig
from ludus.records import Task
from ludus.workflows.outcome import Outcome
from ludus.workflows.protocol import KeepsNothing
from ludus.workflows.rollout_model import RolloutModel
from ludus.workflows.templates import fill


class SingleTurn(KeepsNothing):
    """Asks the task's prompt."""

    def __init__(self, config: SingleTurnConfig) -> None:
        self._config = config

    async def run(self, task: Task, model: RolloutModel) -> Outcome:
        """Ask once; the reply is the response."""
        chat = model.chat(self._config.system)
        reply = await chat.say(fill(self._config.template, task.inputs))
        return Outcome(response=reply, truncated=chat.is_cut)
