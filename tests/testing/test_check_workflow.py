"""`check_workflow` lets good workflows pass and names the promise that a bad one breaks."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from ludus.records import Task
from ludus.testing import ConformanceError, check_workflow
from ludus.workflows import Outcome, RolloutModel

TASKS = [{"prompt": "2+2=", "answer": "4"}, {"prompt": "1+1=", "answer": "2"}]


def say(messages: list[dict[str, str]]) -> str:
    return "4" if "2+2" in messages[0]["content"] else "2"


async def good(task: Task, model: RolloutModel, bonus: float = 0.0) -> Outcome:
    chats = [model.chat(), model.chat()]
    replies = await asyncio.gather(*(chat.say(task.inputs["prompt"]) for chat in chats))
    return Outcome(response=replies[0], reward=float(replies[0] == task.inputs["answer"]) + bonus)


def test_a_good_workflow_passes_and_is_shown_what_became_of_it() -> None:
    episodes = check_workflow(good, TASKS, say, options={"bonus": 0.5})
    assert [episode.returns for episode in episodes] == [(1.5,), (1.5,)]
    assert [episode.replies for episode in episodes] == [("4", "4"), ("2", "2")]


counter = itertools.count()


async def forgetful(task: Task, model: RolloutModel) -> float:
    await model.chat().say("x")
    return float(next(counter))


async def greedy(task: Task, model: RolloutModel) -> str:
    task.inputs.pop("answer", None)
    return await model.chat().say(task.inputs["prompt"])


async def trusting(task: Task, model: RolloutModel) -> float:
    return float(await model.chat().say(task.inputs["prompt"]))


async def slow(task: Task, model: RolloutModel) -> str:
    await asyncio.sleep(60)
    return await model.chat().say(task.inputs["prompt"])


async def mute(task: Task, model: RolloutModel) -> str:
    return "4"


@pytest.mark.parametrize(
    ("workflow", "promise"),
    [
        (forgetful, "comes to the same, whatever else"),
        (greedy, "leaves the task's fields alone"),
        (trusting, "whatever the policy says"),
        (slow, "an attempt has an outcome.*TimeoutExceeded"),
        (mute, "an attempt has an outcome.*without a reply"),
    ],
)
def test_a_broken_promise_is_named(workflow: Any, promise: str) -> None:
    with pytest.raises(ConformanceError, match=promise):
        check_workflow(workflow, TASKS, say, limit_s=0.5)
