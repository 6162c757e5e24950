"""Agents as threads and processes: what fails, hangs or is given up costs its own episode, and nobody else gets in."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import httpx2 as httpx
import openai
import psutil
import pytest
from attempting import Make, attempt, be_away, run, sampled
from talking_agents import agent, client, user

from ludus.errors import ConfigError
from ludus.lm.chat import ChatFormat
from ludus.workflows.agents.agent import AgentTask, register_agent, register_agent_program


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
