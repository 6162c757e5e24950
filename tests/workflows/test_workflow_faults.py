"""Workflows that fail, hang or break out: each costs its own episode, and the others go on."""

import asyncio
import sys
import time
from typing import Any

import pytest
from attempting import Make, attempt, be_away, run

from ludus.errors import EngineLost, EnvError
from ludus.explore.runners import bounded_work
from ludus.records import Task
from ludus.runtime import NO_TASK, Pulse
from ludus.workflows import Outcome, RolloutModel, register_workflow

left_models: list[RolloutModel] = []


async def misbehave(task: Task, model: RolloutModel) -> Any:
    """Does what its task says, after a first reply."""
    how = task.inputs["how"]
    if how == "silent":
        return "4"
    reply = await model.chat().say(task.inputs["prompt"])
    match how:
        case "raise":
            raise ValueError("boom")
        case "hang":
            await asyncio.Event().wait()
        case "cancel":
            raise asyncio.CancelledError
        case "exit":
            sys.exit(3)
        case "timeout":
            raise TimeoutError("the user's own")
        case "junk":
            return [reply]
        case "bytes":
            return Outcome(response=b"4")  # type: ignore[arg-type]
        case "nan":
            return Outcome(reward=float("nan"))
        case "true":
            return True
        case "steps":
            return Outcome(step_rewards=[1.0, 2.0])
        case "metric":
            return Outcome(reward=1.0, metrics={"a b": 1.0})
        case "leave":
            left_models.append(model)
        case "twice":
            chat = model.chat()
            await asyncio.gather(chat.say("a"), chat.say("b"))
    return reply


register_workflow("misbehave", misbehave)
FAULTS = {
    "silent": "PolicyError: the workflow ended without a reply",
    "raise": "EnvError: the workflow: ValueError: boom",
    "hang": "TimeoutExceeded: the episode took longer than 0.3 s",
    "cancel": "EnvError: the workflow was cancelled by its own code",
    "exit": "EnvError: its code wanted to exit with 3",
    "timeout": "EnvError: the workflow: TimeoutError: the user's own",
    "junk": "EnvError: the workflow returned a list",
    "bytes": "EnvError: the workflow's response is a bytes",
    "nan": "RewardError: expected a number between",
    "true": "RewardError: expected a number, got the bool True",
    "steps": "EnvError: the workflow gave 2 step rewards for 1 replies",
    "metric": "EnvError: the workflow has a metric 'a b'",
    "twice": "EnvError: a chat takes one message at a time",
}


def test_each_fault_costs_its_own_episode(make_runner: Make) -> None:
    tasks = [attempt(n, how=how) for n, how in enumerate([*FAULTS, "well", "well"])]
    pulse = Pulse()
    runner, _ = make_runner(
        lambda prompt: "4", {"kind": "custom", "name": "misbehave"}, slots=3, deadline_s=0.3, pulse=pulse
    )
    batch = run(runner, tasks)
    errors = {episode.task.inputs["how"]: episode.error for episode in batch.episodes}
    assert errors.pop("well") == ""
    assert errors.keys() == FAULTS.keys()
    for how, message in FAULTS.items():
        assert errors[how].startswith(message), how
    assert batch.experiences.sequences["task"].tolist() == [13, 14]
    counts = runner.take_counts()
    assert counts["workflow/failed"] == len(FAULTS)
    assert counts["workflow/timeouts"] == 1
    assert pulse.task == NO_TASK


def test_what_was_said_before_a_failure_can_be_read(make_runner: Make) -> None:
    runner, _ = make_runner(lambda prompt: "4", {"kind": "custom", "name": "misbehave"})
    (episode,) = run(runner, [attempt(how="raise")]).episodes
    assert episode.replies == ("4",)
    assert (episode.returns, dict(episode.rewards)) == ((0.0,), {})


def test_one_that_will_not_be_cancelled_frees_its_slot(make_runner: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_work, "GRACE_S", 0.1)
    release = asyncio.Event()
    ended: list[str] = []

    async def stubborn(task: Task, model: RolloutModel) -> str:
        reply = await model.chat().say("x")
        while task.id == 0 and not release.is_set():
            try:
                await asyncio.wait_for(release.wait(), 60)
            except asyncio.CancelledError:
                continue
        if task.id == 0:
            with pytest.raises(Exception, match="the attempt is over"):
                await model.chats[0].say("y")
            ended.append(reply)
        return reply

    register_workflow("stubborn", stubborn)
    runner, _ = make_runner(lambda prompt: "4", {"kind": "custom", "name": "stubborn"}, slots=1, deadline_s=0.2)
    began = time.monotonic()
    batch = run(runner, [attempt(0), attempt(1)])
    assert time.monotonic() - began < 10
    assert {e.task.id: e.error[:15] for e in batch.episodes} == {0: "TimeoutExceeded", 1: ""}
    release.set()
    runner.submit([attempt(2)])
    while not ended:
        runner.step()


def test_while_a_workflows_code_runs_the_pulse_says_whose(make_runner: Make) -> None:
    pulse = Pulse()
    seen: list[int] = []

    async def watched(task: Task, model: RolloutModel) -> str:
        seen.append(pulse.task)
        reply = await model.chat().say("x")
        seen.append(pulse.task)
        return reply

    register_workflow("watched", watched)
    runner, _ = make_runner(lambda prompt: "4", {"kind": "custom", "name": "watched"}, pulse=pulse)
    run(runner, [attempt(7)])
    assert seen == [7, 7]
    assert pulse.task == NO_TASK


def test_a_failed_attempt_is_made_again_with_other_seeds(make_runner: Make) -> None:
    tries: list[int] = []

    async def flaky(task: Task, model: RolloutModel) -> str:
        reply = await model.chat().say("x")
        tries.append(model.seed)
        if len(tries) < 3:
            raise EnvError("not yet")
        return reply

    register_workflow("flaky", flaky)
    runner, engine = make_runner(lambda prompt: "4", {"kind": "custom", "name": "flaky", "retries": 2})
    (episode,) = run(runner, [attempt()]).episodes
    assert not episode.error
    assert len(set(tries)) == 3
    assert len({request.seed for request in engine.requests}) == 3
    assert len({request.session for request in engine.requests}) == len(engine.ended) == 3
    counts = runner.take_counts()
    assert (counts["workflow/attempts"], counts["workflow/retries"]) == (3.0, 2.0)
    assert "workflow/failed" not in counts


def test_retries_are_bounded_and_a_failed_reward_is_not_retried(make_runner: Make) -> None:
    workflow = {"kind": "custom", "name": "misbehave", "retries": 2}
    runner, engine = make_runner(lambda prompt: "4", workflow)
    assert "boom" in run(runner, [attempt(how="raise")]).episodes[0].error
    assert len(engine.requests) == 3
    assert "RewardError" in run(runner, [attempt(how="nan")]).episodes[0].error
    assert len(engine.requests) == 4
    lacking = attempt(how="well")
    del lacking.inputs["answer"]
    assert "no field 'answer'" in run(runner, [lacking]).episodes[0].error
    assert len(engine.requests) == 5


async def swallow(task: Task, model: RolloutModel) -> str:
    """Makes light of everything."""
    said = []
    for _ in range(3):
        try:
            said.append(await model.chat().say(task.inputs["prompt"]))
        except Exception:
            said.append("4")
    return said[-1]


register_workflow("swallow", swallow)


def test_an_attempt_that_the_engine_interrupts_begins_again_whatever_it_makes_of_it(make_runner: Make) -> None:
    runner, engine = make_runner(lambda prompt: "5", {"kind": "custom", "name": "swallow"}, patience_s=60.0)
    be_away(engine, first=5, requests=4)
    batch = run(runner, [attempt(n) for n in range(6)])
    assert [episode.error for episode in batch.episodes] == [""] * 6
    assert {episode.replies for episode in batch.episodes} == {("5", "5", "5")}
    assert len(batch.experiences) == 18


def test_an_engine_that_stays_away_stops_the_runner(make_runner: Make) -> None:
    runner, engine = make_runner(lambda prompt: "5", {"kind": "custom", "name": "swallow"}, patience_s=0.0)
    be_away(engine, first=2, requests=10**6)
    with pytest.raises(EngineLost, match="patience_s = 0 is over"):
        run(runner, [attempt(n) for n in range(4)])


def test_a_second_chat_of_one_that_has_one_is_refused(make_runner: Make) -> None:
    class One:
        many_chats = False

        async def run(self, task: Task, model: RolloutModel) -> str:
            await model.chat().say("a")
            return await model.chat().say("b")

    register_workflow("one", One)
    runner, _ = make_runner(lambda prompt: "4", {"kind": "custom", "name": "one"})
    assert "began a second chat" in run(runner, [attempt()]).episodes[0].error


def test_closing_gives_up_what_hangs(make_runner: Make) -> None:
    runner, _ = make_runner(lambda prompt: "4", {"kind": "custom", "name": "misbehave"})
    runner.submit([attempt(how="hang"), attempt(1, how="leave")])
    for _ in range(3):
        runner.step()
    began = time.monotonic()
    runner.close()
    assert time.monotonic() - began < 5
