"""Workflows that users write: functions and classes, several chats, rewards of their own."""

import asyncio
from typing import Any

import pytest
from attempting import Make, attempt, part, run

from ludus.errors import ConfigError
from ludus.lm.chat import ChatFormat
from ludus.records import Task
from ludus.workflows import Outcome, RolloutModel, register_workflow


def custom(name: str, **options: Any) -> dict[str, Any]:
    return {"kind": "custom", "name": name, "options": options}


async def debate(task: Task, model: RolloutModel, rounds: int = 1) -> Outcome:
    """Two chats that hear what the other said."""
    pro, contra = model.chat("You agree."), model.chat("You disagree.")
    said = task.inputs["prompt"]
    for _ in range(rounds):
        said = await contra.say(await pro.say(said))
    return Outcome(response=said, reward=0.25, metrics={"rounds": rounds})


register_workflow("debate", debate)


def test_every_chat_is_a_row_with_the_reward_of_the_whole(make_runner: Make) -> None:
    runner, _ = make_runner(lambda prompt: f"{len(prompt)}", custom("debate", rounds=2))
    batch = run(runner, [attempt()])
    (episode,) = batch.episodes
    assert dict(episode.rewards) == {"workflow": 0.25}
    assert len(episode.replies) == 4
    assert episode.move_texts[1] == episode.replies[0]
    rows = batch.experiences
    assert rows.sequences["turn"].tolist() == [0, 1]
    assert len(set(rows.places.tolist())) == 2
    assert rows.sequences["final_reward"].tolist() == [0.25, 0.25]
    for row in range(2):
        assert part(rows, row, "reward")[-1] == part(rows, row, "reward").sum() == 0.25
        assert part(rows, row, "mask")[-1]
    counts = runner.take_counts()
    assert (counts["workflow/metrics/rounds/sum"], counts["workflow/metrics/rounds/count"]) == (2.0, 1.0)


def test_rows_may_be_replies_with_all_that_came_before(make_runner: Make) -> None:
    runner, _ = make_runner(lambda prompt: "hm", custom("debate", rounds=2), prompt={"rows": "turn"})
    rows = run(runner, [attempt()]).experiences
    assert rows.sequences["turn"].tolist() == [0, 1, 2, 3]
    assert [part(rows, row, "reward").sum() for row in range(4)] == [0.25] * 4


class Stepwise:
    """Rewards each reply by itself, and has the run's rewards score the last."""

    many_chats = False

    def __init__(self, worth: list[float]) -> None:
        self._worth = worth
        self.is_closed = False

    async def run(self, task: Task, model: RolloutModel) -> Outcome:
        chat = model.chat()
        replies = [await chat.say(f"step {step}") for step in range(len(self._worth))]
        return Outcome(response=replies[-1], step_rewards=self._worth)

    async def close(self) -> None:
        self.is_closed = True


register_workflow("stepwise", Stepwise)


def test_step_rewards_stand_on_their_replies(make_runner: Make) -> None:
    runner, _ = make_runner(lambda prompt: "4", custom("stepwise", worth=[0.5, -1.0, 0.25]))
    batch = run(runner, [attempt()])
    (episode,) = batch.episodes
    assert episode.returns == (0.75,)  # the steps, and 1 for the right answer
    assert dict(episode.rewards) == {"exact": 1.0, "steps": -0.25}
    rows = batch.experiences
    assert "turn" not in rows.sequences
    assert [value for value in part(rows, 0, "reward").tolist() if value] == [0.5, -1.0, 1.25]
    assert part(rows, 0, "reward")[~part(rows, 0, "mask")].sum() == 0.0


def test_a_run_without_rewards_can_live_on_step_rewards(make_runner: Make) -> None:
    runner, _ = make_runner(lambda prompt: "4", custom("stepwise", worth=[0.5, -1.0]), rewards=())
    assert run(runner, [attempt()]).episodes[0].returns == (-0.5,)


def test_a_class_is_made_once_with_its_options_and_closed_at_the_end(make_runner: Make) -> None:
    runner, _ = make_runner(lambda prompt: "4", custom("stepwise", worth=[1.0]))
    made = runner._default.workflow._made  # type: ignore[attr-defined]
    run(runner, [attempt(0), attempt(1)])
    runner.close()
    assert made.is_closed


def test_a_workflow_may_return_a_response_a_reward_or_nothing(make_runner: Make) -> None:
    async def short(task: Task, model: RolloutModel) -> Any:
        reply = await model.chat().say(task.inputs["prompt"])
        return {"text": reply + "4", "reward": 0.5, "none": None}[task.inputs["what"]]

    register_workflow("short", short)
    tasks = [attempt(n, what=what, answer="44") for n, what in enumerate(("text", "reward", "none"))]
    batch = run(make_runner(lambda prompt: "4", custom("short"))[0], tasks)
    assert {e.task.inputs["what"]: e.returns[0] for e in batch.episodes} == {"text": 1.0, "reward": 0.5, "none": 0.0}


def test_a_reply_to_others_words_is_the_policys_alone(make_runner: Make, chat: ChatFormat) -> None:
    messages = [
        {"role": "system", "content": "Rules."},
        {"role": "user", "content": "2+2?"},
        {"role": "assistant", "content": "5"},
        {"role": "user", "content": "No."},
    ]

    async def correct(task: Task, model: RolloutModel) -> str:
        return await model.complete(messages)

    register_workflow("correct", correct)
    rows = run(make_runner(lambda prompt: "4", custom("correct"))[0], [attempt()]).experiences
    mask = part(rows, 0, "mask")
    assert chat.decode(part(rows, 0, "action")[mask].tolist()) == "4"
    before = [*chat.opening(messages[:2]), *chat.encode_reply("5"), *chat.reply("No.", ended=True)]
    assert part(rows, 0, "action")[~mask].tolist() == before


def test_chats_of_one_attempt_may_run_at_the_same_time_with_seeds_of_their_own(make_runner: Make) -> None:
    async def vote(task: Task, model: RolloutModel) -> Outcome:
        votes = await asyncio.gather(*(model.chat().say(task.inputs["prompt"]) for _ in range(5)))
        return Outcome(response=max(votes, key=votes.count))

    register_workflow("vote", vote)
    runner, engine = make_runner(lambda prompt: "4", custom("vote"))
    batch = run(runner, [attempt()])
    assert batch.episodes[0].returns == (1.0,)
    assert len(batch.experiences) == 5
    assert len({request.seed for request in engine.requests}) == 5


def test_a_workflow_can_ask_what_a_response_is_worth(make_runner: Make) -> None:
    async def best_of(task: Task, model: RolloutModel) -> Outcome:
        reply = await model.chat().say(task.inputs["prompt"])
        return Outcome(response=reply, reward=(await model.score("4")).total + (await model.score(reply)).total)

    register_workflow("best_of", best_of)
    assert run(make_runner(lambda prompt: "x", custom("best_of"))[0], [attempt()]).episodes[0].returns == (1.0,)


def test_what_cannot_be_made_is_one_clear_error(make_runner: Make) -> None:
    with pytest.raises(ConfigError, match="workflow 'debat': no such workflow; did you mean debate"):
        make_runner(None, custom("debat"))
    with pytest.raises(ConfigError, match="workflow 'stepwise' could not be made: TypeError"):
        make_runner(None, custom("stepwise", wort=[]))
    register_workflow("plain", lambda task, model: "4")
    with pytest.raises(ConfigError, match="expected an async function"):
        make_runner(None, custom("plain"))
    with pytest.raises(ConfigError, match="small letters"):
        register_workflow("Debate", debate)


def test_a_cancelled_attempt_ends_at_once_and_frees_its_slot(make_runner: Make) -> None:
    """Its code is told, the engine forgets its session, and nothing comes of it."""
    told: list[int] = []

    async def waits(task: Task, model: RolloutModel) -> Outcome:
        reply = await model.chat().say(task.inputs["prompt"])
        try:
            while task.id == 0:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.append(task.id)
            raise
        return Outcome(response=reply, reward=1.0)

    register_workflow("waits_for_ever", waits)
    runner, engine = make_runner(lambda prompt: "4", custom("waits_for_ever"), slots=1)
    runner.submit([attempt(0), attempt(1), attempt(2)])
    while not any(steps for _, steps in runner.progress()):
        runner.step()
    ((number, sampled),) = runner.progress()
    assert (number, sampled) == (0, 2)  # the 4, and the end of the reply
    runner.cancel([0, 2])
    batch = run(runner, [])
    assert [(episode.task.id, episode.sampled) for episode in batch.episodes] == [(1, 2)]
    assert batch.episodes[0].steps == 3
    assert told == [0]
    assert len(engine.ended) == 2
    assert runner.progress() == []


def test_tokens_of_a_reply_that_is_being_written_are_seen(make_runner: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long reply can be given up before its end."""
    monkeypatch.setattr("ludus.explore.runners.language_runner.STEP_S", 0.0)  # a fast machine writes it all in a step
    runner, engine = make_runner(None, sampling=LONG)
    runner.submit([attempt(0)])
    seen = 0
    while seen < 3 and not runner.is_idle:
        runner.step()
        seen = max((steps for _, steps in runner.progress()), default=0)
    assert 3 <= seen < LONG["max_tokens"]
    runner.cancel([0])
    batch = run(runner, [])
    assert not batch.episodes
    assert engine.counters.sampled_tokens < LONG["max_tokens"]


LONG = {"max_tokens": 400, "ignore_end": True}
