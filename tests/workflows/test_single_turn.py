"""One question, one reply, a reward: what is recorded, token by token."""

from typing import Any

import numpy as np
from attempting import Make, attempt, part, run

from ludus.inference.protocol import Request
from ludus.lm.chat import ChatFormat


def test_an_attempt_is_one_conversation_with_its_reward_on_the_last_token(make_runner: Make, chat: ChatFormat) -> None:
    runner, engine = make_runner(lambda prompt: "4")
    batch = run(runner, [attempt()])
    (episode,) = batch.episodes
    assert not episode.error
    assert (episode.returns, dict(episode.rewards), episode.truncated) == ((1.0,), {"exact": 1.0}, False)
    assert (episode.replies, episode.move_texts) == (("4",), ("2+2=",))
    rows = batch.experiences
    assert "turn" not in rows.sequences
    assert rows.sequences["final_reward"].tolist() == [1.0]
    assert rows.sequences["group"].tolist() == ["g0"]
    said = chat.encode_reply("4")
    asked = chat.opening([{"role": "user", "content": "2+2="}])
    assert part(rows, 0, "action").tolist() == [*asked, *said]
    assert part(rows, 0, "mask").tolist() == [False] * len(asked) + [True] * len(said)
    assert part(rows, 0, "reward").tolist() == [0.0] * (len(asked) + len(said) - 1) + [1.0]
    assert part(rows, 0, "logp").tolist() == [0.0] * len(asked) + [-1.0 - n for n in range(len(said))]
    assert set(part(rows, 0, "version")[part(rows, 0, "mask")].tolist()) == {3}
    assert engine.ended == [request.session for request in engine.requests]


def test_the_question_is_a_template_of_the_tasks_fields(make_runner: Make) -> None:
    workflow = {"kind": "single_turn", "system": "Be brief.", "template": "{{Q}} {prompt} of {sizes}", "max_tokens": 3}
    runner, engine = make_runner(lambda prompt: "fourteen", workflow)
    batch = run(runner, [attempt(sizes=[1, 2])])
    (episode,) = batch.episodes
    assert episode.move_texts == ("{Q} 2+2= of [1, 2]",)
    assert episode.replies == ("fou",)
    assert episode.truncated
    assert episode.returns == (0.0,)
    assert engine.requests[0].sampling.max_tokens == 3


def test_a_field_that_a_task_lacks_costs_that_task(make_runner: Make) -> None:
    runner, _ = make_runner(lambda prompt: "4", {"kind": "single_turn", "template": "{prompt} {hint}"})
    batch = run(runner, [attempt(0), attempt(1, hint="even")])
    errors = {episode.task.id: episode.error for episode in batch.episodes}
    assert "no field 'hint'" in errors[0]
    assert errors[1] == ""
    assert batch.experiences.sequences["task"].tolist() == [1]


def test_rewards_are_summed_and_their_parts_kept(make_runner: Make) -> None:
    rewards = [{"kind": "exact", "weight": 2.0}, {"kind": "format", "pattern": "[0-9]+", "weight": 0.5}]
    runner, _ = make_runner(lambda prompt: "5", rewards=rewards)
    batch = run(runner, [attempt()])
    assert batch.episodes[0].returns == (0.5,)
    assert dict(batch.episodes[0].rewards) == {"exact": 0.0, "format": 1.0}
    assert batch.experiences.steps["reward"].sum() == 0.5
    counts = runner.take_counts()
    assert counts["rewards/format/sum"] == 1.0
    assert counts["workflow/attempts"] == 1.0
    assert runner.take_counts() == {}


def test_evaluation_is_scored_and_not_learnt_from(make_runner: Make) -> None:
    runner, engine = make_runner(lambda prompt: "4")
    batch = run(runner, [attempt(learns=False, greedy=True)])
    assert batch.episodes[0].returns == (1.0,)
    assert not len(batch.experiences)
    assert engine.requests[0].sampling.temperature == 0.0


def test_hundreds_are_in_flight_and_none_depends_on_its_neighbours(make_runner: Make) -> None:
    tasks = [attempt(n, prompt=f"{n}+1=") for n in range(12)]
    alone = {e.id: e.replies for e in run(make_runner(None, slots=1, sampling={"max_tokens": 6})[0], tasks).episodes}
    crowd = [*tasks, *(attempt(n, prompt="x") for n in range(12, 300))]
    crowded = run(make_runner(None, slots=400, sampling={"max_tokens": 6})[0], crowd[::-1])
    assert len(crowded.episodes) == 300
    assert {e.id: e.replies for e in crowded.episodes if e.id in alone} == alone
    assert len(set(alone.values())) > 1


def test_the_tokens_of_a_row_are_those_that_the_engine_samples(make_runner: Make) -> None:
    """Asked again for the same, the engine gives the tokens and log-probabilities that stand in the row."""
    runner, engine = make_runner(None, sampling={"max_tokens": 12})
    asked: list[Request] = []
    generate = engine.generate

    async def listening(request: Request) -> Any:
        asked.append(request)
        return await generate(request)

    engine.generate = listening  # type: ignore[method-assign]
    rows = run(runner, [attempt(n) for n in range(4)]).experiences
    for row, number in enumerate(rows.sequences["task"].tolist()):
        (request,) = [each for each in asked if each.session == asked[number].session]
        again = runner._loop.run_until_complete(generate(request))
        mask = part(rows, row, "mask")
        assert part(rows, row, "action")[mask].tolist() == again.tokens.tolist()
        np.testing.assert_array_equal(part(rows, row, "logp")[mask], again.logps)
        assert part(rows, row, "action")[~mask].tolist() == list(request.prompt)


def test_a_prompt_that_does_not_fit_is_one_clear_error(make_runner: Make) -> None:
    runner, _ = make_runner(lambda prompt: "4", context=64)
    batch = run(runner, [attempt(prompt="x" * 100), attempt(1)])
    errors = {episode.task.id: episode.error for episode in batch.episodes}
    assert errors[0].startswith("OutOfRoom: a conversation of ")
    assert not errors[1]


def test_a_run_without_rewards_needs_a_workflow_that_has_them(make_runner: Make) -> None:
    runner, _ = make_runner(lambda prompt: "4", rewards=())
    assert "give it some under rewards" in run(runner, [attempt()]).episodes[0].error


def test_closing_twice_changes_nothing(make_runner: Make) -> None:
    runner, _ = make_runner(lambda prompt: "4")
    runner.submit([attempt()])
    runner.close()
    runner.close()
