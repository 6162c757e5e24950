"""Programs that know only the `openai` client are attempted with, recorded token by token, and rewarded."""

import asyncio
import json
from typing import Any

import pytest
from attempting import Make, attempt, listen, run, sampled
from talking_agents import SYSTEM, agent, client, user

from ludus.lm.chat import ChatFormat
from ludus.workflows import Outcome
from ludus.workflows.agents.agent import AgentTask, register_agent


def test_the_tokens_of_the_rows_are_those_that_the_engine_sampled(make_runner: Make) -> None:
    runner, engine = make_runner(None, agent("solver", turns=3), sampling={"max_tokens": 10, "temperature": 1.3})
    heard = listen(engine)
    batch = run(runner, [attempt(n) for n in range(3)])
    assert [episode.error for episode in batch.episodes] == [""] * 3
    rows = batch.experiences
    assert len(rows) == 3
    assert rows.sequences["turn"].tolist() == [0, 0, 0]
    replies = [reply for row in range(len(rows)) for reply in sampled(rows, row)]
    assert len(replies) == len(heard) == 9
    true = sorted((list(r.prompt), c.tokens.tolist(), c.logps.tolist()) for r, c in heard)
    assert sorted(replies) == true
    assert {request.sampling.temperature for request, _ in heard} == {1.3}


def test_every_attempt_gives_the_same_again(make_runner: Make) -> None:
    sampling = {"max_tokens": 8}
    first = run(make_runner(None, agent("solver"), sampling=sampling)[0], [attempt(n) for n in range(4)])
    second = run(make_runner(None, agent("solver"), sampling=sampling, slots=1)[0], [attempt(n) for n in range(4)])
    said = {episode.id: episode.replies for episode in first.episodes}
    assert {episode.id: episode.replies for episode in second.episodes} == said
    assert len(set(said.values())) == 4


def test_a_conversation_that_goes_on_is_one_row_and_another_is_another(make_runner: Make, chat: ChatFormat) -> None:
    async def branching(task: AgentTask) -> None:
        async with client(task) as openai_client:

            async def ask(*messages: Any) -> dict[str, Any]:
                reply = await openai_client.chat.completions.create(model="x", messages=list(messages))
                return {"role": "assistant", "content": reply.choices[0].message.content}

            one = await ask(SYSTEM, user("a"))
            two = await ask(SYSTEM, user("a"), one, user("b"))  # goes on
            await ask(SYSTEM, user("a"), one, user("c"))  # goes on from an earlier reply
            await ask(user("a"))  # another beginning
            await ask(SYSTEM, user("a"), one, user("b"), {**two, "content": f" {two['content']}\n"}, user("d"))
            await ask(SYSTEM, user("a"), {"role": "assistant", "content": "never said"}, user("b"))

    register_agent("branching", branching)
    replies = iter(["one", "two", "three", "four", "five", "six"])
    runner, engine = make_runner(lambda prompt: next(replies), agent("branching"))
    heard = listen(engine)
    batch = run(runner, [attempt(answer="six")])
    (episode,) = batch.episodes
    assert not episode.error
    assert episode.returns == (1.0,)
    rows = batch.experiences
    texts = [[chat.decode(tokens) for _, tokens, _ in sampled(rows, row)] for row in range(len(rows))]
    assert texts == [["one", "two", "five"], ["three"], ["four"], ["six"]]
    assert rows.sequences["turn"].tolist() == [0, 1, 2, 3]
    prompts = [list(request.prompt) for request, _ in heard]
    opening = chat.opening([SYSTEM, user("a")])
    assert prompts[0] == opening
    assert prompts[2] == [*opening, *chat.encode_reply("one"), *chat.reply("c", ended=True)]
    assert prompts[4] == [*prompts[1], *chat.encode_reply("two"), *chat.reply("d", ended=True)]
    assert [sum(rows.steps["reward"][rows.offsets[n] : rows.offsets[n + 1]]) for n in range(4)] == [1.0] * 4


def test_a_branch_has_the_true_tokens_of_what_was_said_before_it(make_runner: Make, chat: ChatFormat) -> None:
    """Sampled tokens are seldom those that their text would be made into; a branch must not make them anew."""

    async def twice(task: AgentTask) -> float:
        async with client(task) as openai_client:
            first = await openai_client.chat.completions.create(model="x", messages=[user("a")])  # type: ignore[list-item]
            said = {"role": "assistant", "content": first.choices[0].message.content}
            for text in ("b", "c"):
                await openai_client.chat.completions.create(model="x", messages=[user("a"), said, user(text)])  # type: ignore[list-item]
        return 1.0

    register_agent("twice", twice)
    runner, engine = make_runner(None, agent("twice"), sampling={"max_tokens": 20})
    heard = listen(engine)
    batch = run(runner, [attempt(n) for n in range(8)])
    assert not any(episode.error for episode in batch.episodes)
    opening = chat.opening([user("a")])
    whole = [[*r.prompt, *c.tokens.tolist()] for r, c in heard if list(r.prompt) == opening]
    branches = [list(request.prompt) for request, _ in heard if request.session.endswith("/1")]
    assert len(branches) == len(whole) == 8
    assert all(any(branch[: len(tokens)] == tokens for tokens in whole) for branch in branches)
    rows = batch.experiences
    counts = [len(sampled(rows, row)) for row in range(len(rows))]
    assert sorted(counts) == [1] * 8 + [2] * 8


def test_requests_at_the_same_time_are_conversations_of_their_own(make_runner: Make) -> None:
    async def crowd(task: AgentTask) -> float:
        async with client(task) as openai_client:
            create = openai_client.chat.completions.create
            several = await create(model="x", messages=[user("a")], n=3)  # type: ignore[list-item]
            said = {"role": "assistant", "content": several.choices[1].message.content}
            await asyncio.gather(*(create(model="x", messages=[user("a"), said, user("b")]) for _ in range(3)))  # type: ignore[list-item]
            return float(len({choice.message.content for choice in several.choices}))

    register_agent("crowd", crowd)
    runner, engine = make_runner(None, agent("crowd"), sampling={"max_tokens": 12})
    heard = listen(engine)
    batch = run(runner, [attempt()])
    assert not batch.episodes[0].error
    assert batch.episodes[0].returns == (3.0,)
    assert len(batch.experiences) == 5  # three, and two branches of the second
    assert len({request.seed for request, _ in heard}) == 6


def test_a_reward_may_be_told_for_the_whole_and_for_each_completion(make_runner: Make) -> None:
    async def teller(task: AgentTask) -> None:
        async with client(task) as openai_client:
            messages: list[Any] = [user("a")]
            for worth in (0.25, 0.5):
                reply = await openai_client.chat.completions.create(model="x", messages=messages)
                messages += [{"role": "assistant", "content": reply.choices[0].message.content}, user("b")]
                await openai_client.post(
                    "/ludus/reward", cast_to=object, body={"reward": worth, "completion": reply.id}
                )
            await openai_client.post("/ludus/reward", cast_to=object, body={"reward": 1.0, "metrics": {"luck": 3}})

    register_agent("teller", teller)
    runner, _ = make_runner(lambda prompt: "x", agent("teller"))
    batch = run(runner, [attempt()])
    (episode,) = batch.episodes
    assert not episode.error
    assert episode.returns == (1.75,)
    assert dict(episode.rewards) == {"workflow": 1.0, "steps": 0.75}
    assert [value for value in batch.experiences.steps["reward"].tolist() if value] == [0.25, 1.5]
    assert runner.take_counts()["workflow/metrics/luck/sum"] == 3.0


def test_what_is_returned_counts_before_what_was_told(make_runner: Make) -> None:
    async def both(task: AgentTask) -> Any:
        async with client(task) as openai_client:
            await openai_client.chat.completions.create(model="x", messages=[user("a")])  # type: ignore[list-item]
            await openai_client.post("/ludus/reward", cast_to=object, body={"reward": 0.5, "response": "told"})
        return {"text": "4", "number": 0.75, "outcome": Outcome(reward=0.1), "none": None}[task.inputs["what"]]

    register_agent("both", both)
    runner, _ = make_runner(lambda prompt: "x", agent("both"))
    tasks = [attempt(n, what=what) for n, what in enumerate(("text", "number", "outcome", "none"))]
    got = {e.task.inputs["what"]: e.returns[0] for e in run(runner, tasks).episodes}
    assert got == {"text": 0.5, "number": 0.75, "outcome": 0.1, "none": 0.5}


def test_stop_strings_end_a_reply_with_the_token_that_completed_them(make_runner: Make, chat: ChatFormat) -> None:
    async def react(task: AgentTask) -> str:
        async with client(task) as openai_client:
            first = await openai_client.chat.completions.create(model="x", messages=[user("a")], stop=["Obs:", "###"])  # type: ignore[list-item]
            assert first.choices[0].finish_reason == "stop"
            said = first.choices[0].message.content
            second = await openai_client.chat.completions.create(
                model="x",
                messages=[user("a"), {"role": "assistant", "content": said}, user("Obs: 4")],  # type: ignore[list-item]
                stop="###",
            )
        return f"{said}|{second.choices[0].message.content}"

    class Continuing:
        """Says a text from where the prompt leaves off, whatever the pieces."""

        def __call__(self, prompt: str) -> str:
            for text in ("Thought: add. Obs: made up and on it goes", "Answer: 4"):
                for start in range(len(text), 0, -1):
                    if prompt.endswith(text[:start]):
                        return text[start:]
            return "Answer: 4" if "Obs: 4" in prompt else "Thought: add. Obs: made up and on it goes"

    register_agent("react", react)
    runner, engine = make_runner(Continuing(), agent("react"), sampling={"max_tokens": 64})
    heard = listen(engine)
    batch = run(runner, [attempt(answer="Thought: add. |Answer: 4")])
    (episode,) = batch.episodes
    assert not episode.error
    assert episode.returns == (1.0,)
    assert all(request.sampling.max_tokens <= 16 for request, _ in heard)
    (first, second) = sampled(batch.experiences, 0)
    assert chat.decode(first[1]) == "Thought: add. Obs:"
    assert chat.decode(second[1]) == "Answer: 4"
    assert second[0] == [*first[0], *first[1], *chat.reply("Obs: 4", ended=False)]


TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds.",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
    },
}


@pytest.mark.parametrize("stream", [False, True])
def test_tools_of_the_api_work_with_any_chat_template(make_runner: Make, chat: ChatFormat, stream: bool) -> None:
    async def caller(task: AgentTask) -> str | None:
        async with client(task) as openai_client:
            messages: list[Any] = [user(task.inputs["prompt"])]
            while True:
                if stream:
                    async with openai_client.chat.completions.stream(
                        model="x", messages=messages, tools=[TOOL]
                    ) as events:
                        choice = (await events.get_final_completion()).choices[0]
                else:
                    reply = await openai_client.chat.completions.create(model="x", messages=messages, tools=[TOOL])  # type: ignore[list-item]
                    choice = reply.choices[0]  # type: ignore[assignment]
                if choice.finish_reason != "tool_calls":
                    return choice.message.content
                assert choice.message.tool_calls
                messages.append(choice.message.model_dump(exclude_none=True, exclude={"parsed"}))
                for call in choice.message.tool_calls:
                    numbers = json.loads(call.function.arguments)
                    result = str(numbers["a"] + numbers["b"])
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": result})

    def say(prompt: str) -> str:
        if "<tool_response>\n4\n" in prompt:
            return "4"
        call = '<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 2}}\n</tool_call>'
        return f"I add. {call}"

    register_agent("caller", caller)
    runner, _ = make_runner(say, agent("caller"), context=2048, sampling={"max_tokens": 200})
    batch = run(runner, [attempt()])
    (episode,) = batch.episodes
    assert not episode.error
    assert episode.returns == (1.0,)
    assert len(batch.experiences) == 1
    assert "add: Adds." in chat.decode(sampled(batch.experiences, 0)[0][0])
    assert episode.move_texts[1] == "<tool_response>\n4\n</tool_response>"


def test_replies_can_be_streamed_and_have_log_probabilities_and_usage(make_runner: Make) -> None:
    seen: dict[str, Any] = {}

    async def streamer(task: AgentTask) -> str:
        async with client(task) as openai_client:
            text = ""
            stream = await openai_client.chat.completions.create(
                model="x",
                messages=[user("a")],  # type: ignore[list-item]
                stream=True,
                logprobs=True,
                stream_options={"include_usage": True},
            )
            async for event in stream:
                seen["usage"] = event.usage
                for choice in event.choices:
                    text += choice.delta.content or ""
                    if choice.logprobs and choice.logprobs.content:
                        seen["logps"] = [token.logprob for token in choice.logprobs.content]
            models = await openai_client.models.list()
            seen["models"] = [model.id for model in models.data]
        return text

    register_agent("streamer", streamer)
    runner, _ = make_runner(lambda prompt: "four", agent("streamer"))
    batch = run(runner, [attempt(answer="four")])
    assert not batch.episodes[0].error
    assert batch.episodes[0].returns == (1.0,)
    ((before, tokens, logps),) = sampled(batch.experiences, 0)
    assert seen["logps"] == logps
    assert (seen["usage"].prompt_tokens, seen["usage"].completion_tokens) == (len(before), len(tokens))
    assert seen["models"] == ["main"]
