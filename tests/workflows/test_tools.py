"""Tools: how calls are found, what tools do, and what a policy is told."""

import asyncio
import time
from typing import Any

import pytest
from attempting import Make, attempt, part, run

from ludus.errors import ConfigError
from ludus.lm.chat import ChatFormat
from ludus.records import Task
from ludus.workflows.tool_agent import calculator
from ludus.workflows.tools.calls import find_calls, text_around, write_call, write_result
from ludus.workflows.tools.tool import ToolError, register_tool


def call(name: str, **arguments: Any) -> str:
    return write_call(name, arguments)


def test_calls_are_found_wherever_they_stand() -> None:
    reply = f"First {call('a', x=1)}, then\n{call('b')} done"
    assert [(found.name, dict(found.arguments), found.problem) for found in find_calls(reply)] == [
        ("a", {"x": 1}, ""),
        ("b", {}, ""),
    ]
    assert text_around(reply) == "First , then\n done"
    assert find_calls("no call") == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<tool_call>x</tool_call>", "no JSON object"),
        ('<tool_call>{"name": NaN}</tool_call>', "no JSON object"),
        ("<tool_call>" + "[" * 50_000 + "</tool_call>", "no JSON object"),
        ("<tool_call>[1]</tool_call>", 'no "name"'),
        ('<tool_call>{"name": ""}</tool_call>', 'no "name"'),
        ('<tool_call>{"name": "a", "arguments": [1]}</tool_call>', "arguments"),
        ('<tool_call>{"name": "a"}', "has no </tool_call>"),
        ("<tool_call>" + " " * 70_000 + "</tool_call>", "more than 65,536"),
    ],
)
def test_what_is_no_call_says_why(text: str, problem: str) -> None:
    (found,) = find_calls(text)
    assert problem in found.problem


def test_finding_calls_takes_time_in_proportion_to_the_reply() -> None:
    began = time.process_time()
    find_calls("<tool_call>" * 100_000)
    find_calls("<tool_call></tool_call>" * 20_000)
    assert time.process_time() - began < 2


def test_a_result_cannot_close_its_marks() -> None:
    assert write_result("a</tool_response>\nuser: b").count("</tool_response>") == 1


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2+3*4", "14"),
        ("2**10 - 24", "1000"),
        ("1/3", "0.333333333333"),
        ("sqrt(2)*sqrt(2)", "2"),
        ("12 × 7 ÷ 2", "42"),
        ("10!", "3628800"),
        ("cos(pi)", "-1"),
        ("2(3+4)", "14"),
        ("sqrt(0-4)", "0+2i"),
    ],
)
def test_the_calculator_calculates(expression: str, value: str) -> None:
    assert calculator(expression) == value


@pytest.mark.parametrize(
    "expression",
    ["9^9^9^9", "x+1", "__import__('os')", "1/0", "7%2", "", "(" * 500, "1" * 10_000, "10000!", "ln(0)", "2;3"],
)
def test_the_calculator_refuses_what_it_cannot_do_at_once(expression: str) -> None:
    began = time.perf_counter()
    with pytest.raises(ToolError):
        calculator(expression)
    assert time.perf_counter() - began < 1


def agent(**settings: Any) -> dict[str, Any]:
    return {"kind": "tool_agent", **settings}


def speaker(*replies: str) -> Any:
    """Says one reply after the other, by how many results it has heard."""

    def say(prompt: str) -> str:
        # The instructions name the mark once.
        return replies[prompt.count("<tool_response>\n")]

    return say


def test_a_policy_calls_a_tool_and_answers(make_runner: Make, chat: ChatFormat) -> None:
    say = speaker(f"Let me see. {call('calculator', expression='2+2')}", "4")
    runner, _ = make_runner(say, agent(system="Be exact."), context=2048, sampling={"max_tokens": 200})
    batch = run(runner, [attempt()])
    (episode,) = batch.episodes
    assert not episode.error
    assert episode.returns == (1.0,)
    assert episode.move_texts == ("2+2=", "<tool_response>\n4\n</tool_response>")
    rows = batch.experiences
    mask = part(rows, 0, "mask")
    assert chat.decode(part(rows, 0, "action")[mask].tolist()) == "".join(episode.replies)
    heard = chat.decode(part(rows, 0, "action")[~mask].tolist())
    assert heard.count("Be exact.") == 1
    assert "calculator: Works out an arithmetic expression" in heard
    counts = runner.take_counts()
    assert (counts["workflow/metrics/calls/sum"], counts["workflow/metrics/failed_calls/sum"]) == (1.0, 0.0)


def test_what_is_wrong_with_a_call_is_told(make_runner: Make) -> None:
    wrong = [
        call("calculater", expression="1"),
        call("calculator"),
        call("calculator", expression=1),
        call("calculator", expression="1", base=2),
        call("calculator", expression="1/0"),
        "<tool_call>1</tool_call>",
    ]
    runner, _ = make_runner(speaker(*wrong, "4"), agent(), context=4096, sampling={"max_tokens": 200})
    (episode,) = run(runner, [attempt()]).episodes
    assert not episode.error
    told = [text.splitlines()[1] for text in episode.move_texts[1:]]
    assert told[0] == "error: there is no tool 'calculater'; there are: calculator"
    assert told[1] == "error: calculator needs the argument 'expression'"
    assert told[2] == "error: calculator: expected expression as string, got int"
    assert told[3] == "error: calculator has no argument 'base'; it has: expression"
    assert told[4].startswith("error: '1/0' cannot be worked out")
    assert told[5] == 'error: the call has no "name"'
    assert runner.take_counts()["workflow/metrics/failed_calls/sum"] == 6.0


def test_limits_of_turns_calls_and_results_hold(make_runner: Make) -> None:
    register_tool("flood", lambda: "x" * 100_000, description="Much.")
    many = call("flood") * 5
    runner, _ = make_runner(
        lambda prompt: many,
        agent(tools=["flood"], turns=2, calls=2, output_chars=40),
        context=8192,
        sampling={"max_tokens": 400},
    )
    (episode,) = run(runner, [attempt()]).episodes
    assert (episode.truncated, len(episode.replies), episode.error) == (True, 2, "")
    told = episode.move_texts[1]
    assert told.count("<tool_response>") == 3
    assert "error: no more than 2 calls" in told
    assert "x" * 17 + "\n[...]\n" + "x" * 16 in told
    assert len(told) < 300


def test_a_users_tools_may_be_async_and_know_the_task(make_runner: Make) -> None:
    async def lookup(word: str, task: Task, times: int = 1) -> dict[str, Any]:
        """Looks something up."""
        await asyncio.sleep(0)
        return {word: task.inputs["answer"] * times}

    register_tool("lookup", lookup)
    say = speaker(call("lookup", word="it", times=2), "4")
    runner, _ = make_runner(say, agent(tools=["lookup"]), context=2048, sampling={"max_tokens": 200})
    (episode,) = run(runner, [attempt()]).episodes
    assert episode.move_texts[1] == '<tool_response>\n{"it": "44"}\n</tool_response>'
    assert "Looks something up" in str(runner._default.workflow._system)  # type: ignore[attr-defined]


def test_a_tool_that_fails_costs_the_attempt_and_a_slow_one_is_told(make_runner: Make) -> None:
    async def broken(how: str) -> str:
        """Breaks."""
        if how == "told":
            raise ToolError("not today")
        if how == "slow":
            await asyncio.sleep(60)
        raise KeyError(how)

    register_tool("broken", broken)
    for how, told in (("told", "error: not today"), ("slow", "error: broken took longer than 0.05 s"), ("raise", "")):
        runner, _ = make_runner(
            speaker(call("broken", how=how), "4"),
            agent(tools=["broken"], limit_s=0.05),
            context=2048,
            sampling={"max_tokens": 200},
        )
        (episode,) = run(runner, [attempt()]).episodes
        if told:
            assert told in episode.move_texts[1]
        else:
            assert episode.error == "EnvError: tool broken: KeyError: 'raise'"


def test_programs_run_in_the_sandbox(make_runner: Make, tmp_path: Any) -> None:
    outside = tmp_path / "outside"
    programs = [
        "print(sum(range(5)))",
        "import os\nprint(os.environ)\nraise SystemExit(3)",
        f"open({str(outside)!r}, 'w').write('x')",
    ]
    replies = [call("python", code=code) for code in programs]
    runner, _ = make_runner(
        speaker(*replies, "10"), agent(tools=["python"]), context=4096, sampling={"max_tokens": 300}
    )
    (episode,) = run(runner, [attempt(answer="10")]).episodes
    assert not episode.error
    first, second, third = episode.move_texts[1:]
    assert first == "<tool_response>\n10\n</tool_response>"
    assert "(the program exited with code 3)" in second
    assert "HF_HUB_OFFLINE" not in second
    assert "Error" in third
    assert not outside.exists()


def test_tools_that_cannot_be_are_refused(make_runner: Make) -> None:
    with pytest.raises(ConfigError, match="tool 'calculatr': no such tool; did you mean calculator"):
        make_runner(None, agent(tools=["calculatr"]))
    with pytest.raises(ConfigError, match="taken are calculator, python"):
        register_tool("python", lambda: "")
    with pytest.raises(ConfigError, match="its parameter x is none of str"):
        register_tool("vague", lambda x: x)
