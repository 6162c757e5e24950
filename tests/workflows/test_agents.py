"""Programs that know only the `openai` client are attempted with, recorded token by token, and rewarded."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx2 as httpx
import openai
import psutil
import pytest
from attempting import Make, attempt, be_away, listen, run, sampled

from ludus.errors import ConfigError
from ludus.lm.chat import ChatFormat
from ludus.workflows import Outcome
from ludus.workflows.agents.agent import AgentTask, register_agent, register_agent_program

SYSTEM = {"role": "system", "content": "Be brief."}


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def client(task: AgentTask) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=task.base_url, api_key=task.api_key, max_retries=0)


def agent(name: str, **options: Any) -> dict[str, Any]:
    return {"kind": "agent", "name": name, "options": options}


async def solver(task: AgentTask) -> str:
    """Asks, asks for a check, and answers: an agent as people write them."""
    async with client(task) as openai_client:
        messages: list[Any] = [SYSTEM, user(task.inputs["prompt"])]
        for _ in range(task.options.get("turns", 3)):
            reply = await openai_client.chat.completions.create(model="gpt-5", messages=messages, temperature=0.2)
            said = reply.choices[0].message.content
            messages += [{"role": "assistant", "content": said}, user("Are you sure?")]
        assert said is not None
        return said


register_agent("solver", solver)


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


def test_a_plain_function_has_a_thread_and_a_program_a_process(make_runner: Make, tmp_path: Path) -> None:
    def plain(task: AgentTask) -> str | None:
        with openai.OpenAI(base_url=task.base_url, api_key=task.api_key, max_retries=0) as sync_client:
            reply = sync_client.chat.completions.create(model="x", messages=[user(task.inputs["prompt"])])  # type: ignore[list-item]
            return reply.choices[0].message.content

    script = tmp_path / "agent.py"
    script.write_text(
        "import json, sys\n"
        "from openai import OpenAI\n"
        "told = json.load(sys.stdin)\n"
        "reply = OpenAI().chat.completions.create(model='gpt-5', messages=[{'role': 'user', 'content': told['inputs']['prompt']}])\n"
        "print(reply.choices[0].message.content + told['options']['after'])\n"
    )
    register_agent("plain", plain)
    register_agent_program("program", [sys.executable, "agent.py"], folder=tmp_path)
    runner, _ = make_runner(lambda prompt: "4", agent("plain"))
    assert run(runner, [attempt(n) for n in range(20)]).episodes[0].returns == (1.0,)
    runner, _ = make_runner(lambda prompt: "4", agent("program", after="2"))
    batch = run(runner, [attempt(n, answer="42") for n in range(2)])
    assert [(episode.error, episode.returns) for episode in batch.episodes] == [("", (1.0,))] * 2
    assert len(batch.experiences) == 2


def children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def test_a_program_that_fails_or_hangs_costs_its_own_episode(make_runner: Make, tmp_path: Path) -> None:
    before, script = {child.pid for child in children()}, tmp_path / "agent.py"
    script.write_text(
        "import json, subprocess, sys, time\n"
        "how = json.load(sys.stdin)['inputs']['how']\n"
        "if how == 'hang':\n"
        "    subprocess.Popen(['sleep', '600'])\n"
        "    time.sleep(600)\n"
        "if how == 'flood':\n"
        "    print('x' * (1 << 21))\n"
        "sys.exit('it is broken' if how == 'fail' else 0)\n"
    )
    register_agent_program("failing", [sys.executable, str(script)])
    runner, _ = make_runner(lambda prompt: "4", agent("failing"))
    batch = run(runner, [attempt(n, how=how) for n, how in enumerate(("fail", "flood", "silent"))])
    errors = {episode.task.inputs["how"]: episode.error for episode in batch.episodes}
    assert "exited with code 1: it is broken" in errors["fail"]
    assert "printed more than 1,048,576 bytes" in errors["flood"]
    assert errors["silent"].startswith("PolicyError: the workflow ended without a reply")
    runner, _ = make_runner(lambda prompt: "4", agent("failing"), deadline_s=1.0)
    (episode,) = run(runner, [attempt(how="hang")]).episodes
    assert episode.error.startswith("TimeoutExceeded")
    assert not [child for child in children() if child.pid not in before and child.name() in ("sleep", "python")]


def test_a_program_ends_with_the_explorer_that_started_it(tmp_path: Path) -> None:
    """The explorer is killed; its agent must not go on."""
    told, program_file = tmp_path / "pid", tmp_path / "program.py"
    os.mkfifo(told)
    program_file.write_text(
        f"import os, time\nwith open({str(told)!r}, 'w') as told:\n    told.write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    explorer = tmp_path / "explorer.py"
    explorer.write_text(
        "import asyncio, sys\n"
        "from ludus.workflows.agents.agent import AgentTask, Command\n"
        "from ludus.workflows.agents.workflow import ProgramAgent\n"
        f"agent = ProgramAgent(Command(arguments=(sys.executable, {str(program_file)!r})))\n"
        "asyncio.run(agent.attempt(AgentTask(base_url='x', api_key='y', model='m', inputs={})))\n"
    )
    with psutil.Popen([sys.executable, str(explorer)], env={**os.environ, "PYTHONPATH": "src"}) as process:
        program = psutil.Process(int(told.read_text()))
        process.kill()
    psutil.wait_procs([program], timeout=10)
    assert not program.is_running() or program.status() == psutil.STATUS_ZOMBIE


def test_the_endpoint_opens_to_nobody_but_the_attempt(make_runner: Make) -> None:
    answers: dict[str, Any] = {}
    kept: list[AgentTask] = []

    async def prying(task: AgentTask) -> float:
        kept.append(task)
        async with httpx.AsyncClient(base_url=task.base_url) as http:
            body = {"model": "x", "messages": [user("a")]}

            async def post(path: str, content: Any, token: str | None = task.api_key, **headers: str) -> Any:
                sent = {**headers, **({"authorization": f"Bearer {token}"} if token else {})}
                return await http.post(path, json=content, headers=sent)

            answers["none"] = await post("/chat/completions", body, token=None)
            answers["other"] = await post("/chat/completions", body, token="ludus-" + "0" * 32)
            answers["reward"] = await post("/ludus/reward", {"reward": 1.0}, token=task.model)
            answers["infinite"] = await http.post(
                "/ludus/reward",
                content=b'{"reward": Infinity}',
                headers={"authorization": f"Bearer {task.api_key}", "content-type": "application/json"},
            )
            answers["half"] = await http.post(
                "/ludus/reward",
                content=rb'{"reward": 1, "completion": "\ud800"}',
                headers={"authorization": f"Bearer {task.api_key}", "content-type": "application/json"},
            )
            answers["text"] = await post("/ludus/reward", {"reward": "1"})
            answers["unknown"] = await post("/ludus/reward", {"reward": 1, "completion": "chatcmpl-x"})
            answers["penalty"] = await post("/chat/completions", {**body, "frequency_penalty": 1})
            answers["forced"] = await post("/chat/completions", {**body, "tool_choice": "required"})
            answers["last"] = await post(
                "/chat/completions", {**body, "messages": [user("a"), {"role": "assistant", "content": "b"}]}
            )
            answers["long"] = await post("/chat/completions", {**body, "messages": [user("a" * 5000)]})
            answers["path"] = await post("/files", body)
            answers["good"] = await post("/chat/completions", body)
        return 1.0

    register_agent("prying", prying)
    runner, _ = make_runner(lambda prompt: "4", agent("prying"))
    batch = run(runner, [attempt()])
    assert not batch.episodes[0].error
    status = {name: answer.status_code for name, answer in answers.items()}
    assert status == {
        "none": 401,
        "other": 401,
        "reward": 401,
        "infinite": 400,
        "half": 404,
        "text": 400,
        "unknown": 404,
        "penalty": 400,
        "forced": 400,
        "last": 400,
        "long": 400,
        "path": 404,
        "good": 200,
    }
    assert answers["long"].json()["error"]["code"] == "context_length_exceeded"
    assert kept[0].base_url.startswith("http://127.0.0.1:")
    assert len(batch.experiences) == 1


def test_a_token_opens_nothing_when_its_attempt_is_over(make_runner: Make) -> None:
    kept: list[str] = []

    async def late(task: AgentTask) -> float:
        kept.append(task.api_key)
        async with client(task) as openai_client:
            await openai_client.chat.completions.create(model="x", messages=[user("a")])  # type: ignore[list-item]
        async with openai.AsyncOpenAI(base_url=task.base_url, api_key=kept[0], max_retries=0) as other:
            try:
                await other.chat.completions.create(model="x", messages=[user("b")])  # type: ignore[list-item]
            except openai.AuthenticationError:
                return 0.5
        return 0.0

    register_agent("late", late)
    runner, _ = make_runner(lambda prompt: "4", agent("late"), slots=1)
    batch = run(runner, [attempt(0), attempt(1)])
    assert {episode.task.id: episode.returns[0] for episode in batch.episodes} == {0: 0.0, 1: 0.5}
    assert len(set(kept)) == 2


def test_an_attempt_that_the_engine_interrupts_begins_again(make_runner: Make) -> None:
    began: list[int] = []

    async def easygoing(task: AgentTask) -> str | None:
        began.append(task.inputs["row"])
        async with client(task) as openai_client:
            said = None
            for _ in range(3):
                try:
                    reply = await openai_client.chat.completions.create(model="x", messages=[user("a")])  # type: ignore[list-item]
                    said = reply.choices[0].message.content
                except openai.APIError:
                    said = "4"
            return said

    register_agent("easygoing", easygoing)
    runner, engine = make_runner(lambda prompt: "5", agent("easygoing"), patience_s=60.0)
    be_away(engine, first=4, requests=3)
    batch = run(runner, [attempt(n, answer="5") for n in range(3)])
    assert [(episode.error, episode.returns, len(episode.replies)) for episode in batch.episodes] == [
        ("", (1.0,), 3)
    ] * 3
    assert len(began) > 3


def test_a_request_that_is_given_up_leaves_the_conversation_as_it_was(make_runner: Make, chat: ChatFormat) -> None:
    gates: list[asyncio.Event] = []

    async def impatient(task: AgentTask) -> float:
        async with client(task) as openai_client:
            create = openai_client.chat.completions.create
            first = await create(model="x", messages=[user("a")])  # type: ignore[list-item]
            messages: list[Any] = [user("a"), {"role": "assistant", "content": first.choices[0].message.content}]
            messages.append(user("b"))
            gates.append(asyncio.Event())
            with pytest.raises(openai.APITimeoutError):
                await create(model="x", messages=messages, timeout=0.2)
            gates.pop().set()
            await create(model="x", messages=messages)
        return 1.0

    register_agent("impatient", impatient)
    runner, engine = make_runner(lambda prompt: "x", agent("impatient"))
    generate = engine.generate

    async def slow(request: Any) -> Any:
        if gates:
            await gates[-1].wait()
        return await generate(request)

    engine.generate = slow  # type: ignore[method-assign]
    batch = run(runner, [attempt()])
    assert not batch.episodes[0].error
    (first, second) = sampled(batch.experiences, 0)
    assert second[0] == [*first[0], *first[1], *chat.reply("b", ended=True)]


def test_what_is_not_there_is_refused_before_the_run(make_runner: Make) -> None:
    with pytest.raises(ConfigError, match="agent 'nobody': no such agent"):
        make_runner(None, agent("nobody"))
    register_agent_program("absent", ["no-such-program-anywhere"])
    with pytest.raises(ConfigError, match="there is no program 'no-such-program-anywhere' on PATH"):
        make_runner(None, agent("absent"))
    with pytest.raises(ConfigError, match="each as text"):
        register_agent_program("empty", [])
