"""Workflows of one chat that need nothing but the policy and a template.

`single_turn`: one question, one reply. `attempts`: the policy is told that its answer was wrong, and tries again; it
learns only that it was not right, never the answer, unless the feedback's template gives it away. In a template,
`{name}` stands for the task's field of that name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ludus.config import template_parts
from ludus.config.sections.workflow import AttemptsConfig, SingleTurnConfig
from ludus.errors import EnvError
from ludus.records import Task
from ludus.workflows.protocol import Outcome
from ludus.workflows.rollout_model import OutOfRoom, RolloutModel


class _OneChat:
    """Has one chat and nothing to give back."""

    many_chats = False

    async def close(self) -> None:
        """There is nothing."""


class SingleTurn(_OneChat):
    """Asks the task's prompt."""

    def __init__(self, config: SingleTurnConfig) -> None:
        self._config = config

    async def run(self, task: Task, model: RolloutModel) -> Outcome:
        """Ask once; the reply is the response."""
        chat = model.chat(self._config.system)
        reply = await chat.say(fill(self._config.template, task.inputs))
        return Outcome(response=reply, truncated=chat.is_cut)


class Attempts(_OneChat):
    """Asks again until the run's rewards say that an attempt is right."""

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


def fill(template: str, inputs: Mapping[str, Any]) -> str:
    """The text for one task. Fields that are not text are written as JSON.

    Raises:
        EnvError: the task has no such field.
    """
    written = []
    for literal, field in template_parts(template):
        written.append(literal)
        if field is None:
            continue
        if field not in inputs:
            known = ", ".join(sorted(inputs)) or "none"
            raise EnvError(f"the task has no field {field!r}, which the workflow's template needs; it has: {known}")
        value = inputs[field]
        written.append(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return "".join(written)
