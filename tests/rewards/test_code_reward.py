"""Programs in responses: found, tested in every way that tasksets write tests, and marked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from ludus.config import SandboxConfig
from ludus.config.sections.rewards import CodeRewardConfig
from ludus.errors import RewardError
from ludus.rewards.attempt import Attempt, Mark
from ludus.rewards.code import CodeReward, are_same, find_program, read_tests
from ludus.sandbox.sandbox import Sandbox, make_sandbox

ADD = "def add(a, b):\n    return a + b\n"
SUBTRACT = "def add(a, b):\n    return a - b\n"
SCRIPT = "a, b = map(int, input().split())\nprint(a + b)"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    sandbox = make_sandbox(SandboxConfig())
    yield sandbox
    sandbox.close()


def mark(sandbox: Sandbox, source: str, tests: Any, *, score: str = "all", **inputs: Any) -> Mark:
    reward = CodeReward(CodeRewardConfig.model_validate({"kind": "code", "score": score}), sandbox)
    response = f"Here it is:\n```python\n{source}\n```\nDone."
    return asyncio.run(reward.mark(Attempt(response=response, inputs={"tests": tests, **inputs})))


WAYS: list[tuple[Any, dict[str, Any]]] = [
    ([{"call": "add", "args": [1, 2], "expected": 3}, {"call": "add", "kwargs": {"a": 1, "b": 1}, "expected": 2}], {}),
    ({"inputs": [[1, 2]], "outputs": [3], "fn_name": "add"}, {}),
    (json.dumps({"inputs": [[1, 2]], "outputs": [3], "fn_name": "add"}), {}),
    (["assert add(1, 2) == 3", "assert add('a', 'b') == 'ab'"], {}),
    ("assert add(1, 2) == 3", {}),
    ("def check(candidate):\n    assert candidate(1, 2) == 3\n", {"entry": "add"}),
    ("def check(candidate):\n    assert candidate(1, 2) == 3\ncheck(add)", {}),
    (["assert three() == add(1, 2)"], {"preparation": "def three(): return 3"}),
]


@pytest.mark.parametrize(("tests", "inputs"), WAYS)
def test_functions_are_tested_in_every_way_that_tests_are_written(sandbox: Sandbox, tests: Any, inputs: Any) -> None:
    assert mark(sandbox, ADD, tests, **inputs).value == 1.0
    assert mark(sandbox, SUBTRACT, tests, **inputs).value == 0.0


@pytest.mark.parametrize(
    "tests",
    [
        [{"input": "1 2\n", "output": "3\n"}, {"input": "5 5", "output": "10  \n\n"}],
        {"inputs": ["1 2", ["3 4"]], "outputs": ["3", ["7"]]},
    ],
)
def test_scripts_are_tested_by_what_they_print(sandbox: Sandbox, tests: Any) -> None:
    assert mark(sandbox, SCRIPT, tests).value == 1.0
    assert mark(sandbox, SCRIPT.replace("+", "-"), tests).value == 0.0


def test_the_share_of_tests_that_pass(sandbox: Sandbox) -> None:
    tests = [{"input": f"{n} 1", "output": str(n - 1 if n == 2 else n + 1)} for n in range(4)]
    marked = mark(sandbox, SCRIPT, tests, score="share")
    assert (marked.value, marked.note) == (0.75, "3 of 4 tests passed; the program printed '3\\n'")
    assert mark(sandbox, SCRIPT, tests).value == 0.0


def test_why_a_program_failed_is_told(sandbox: Sandbox) -> None:
    assert "ZeroDivisionError: division by zero" in mark(sandbox, "1 / 0", [{"input": "", "output": ""}]).note
    assert "the solution returned -1" in mark(sandbox, SUBTRACT, WAYS[0][0]).note
    assert "SyntaxError" in mark(sandbox, "def add(", WAYS[0][0]).note
    assert "AssertionError" in mark(sandbox, SUBTRACT, WAYS[3][0]).note


def test_a_response_without_a_program_is_worth_nothing(sandbox: Sandbox) -> None:
    reward = CodeReward(CodeRewardConfig(kind="code"), sandbox)
    marked = asyncio.run(reward.mark(Attempt(response="I cannot.", inputs={"tests": WAYS[0][0]})))
    assert (marked.value, marked.note) == (0.0, "no program found")


@pytest.mark.parametrize(
    "tests",
    [
        None,
        [],
        7,
        [7],
        [{"input": "x"}],
        {"inputs": ["x"], "outputs": []},
        [{"call": "__import__('os').system", "expected": 0}],
        [{"call": "a.b.c", "expected": 0}],
        [{"call": "f", "args": 1, "expected": 0}],
        ["assert f()", {"call": "f", "expected": 0}],
        "def check(candidate): pass",
    ],
)
def test_a_task_whose_tests_mean_nothing_costs_the_episode(sandbox: Sandbox, tests: Any) -> None:
    with pytest.raises(RewardError, match="the task"):
        mark(sandbox, ADD, tests)


def test_json_that_is_none_is_test_code() -> None:
    assert read_tests("[f(x) for x in range(3)]").codes == ("[f(x) for x in range(3)]",)


@pytest.mark.parametrize(
    ("response", "program"),
    [
        ("```python\nx\n```", "x\n"),
        ("```\nx\n```", "x\n"),
        ("a\n```py\nx\n```\nb\n```python\ny\n```\nc", "y\n"),
        ("```python\nx\n```\nIt prints\n```\n42\n```", "x\n"),
        ("```text\n1\n```\n```\ny\n```", "y\n"),
        ("```python\ncut off", "cut off"),
        ("  ```python\nx\n  ```", "x\n"),
        ("no program", None),
        ("", None),
    ],
)
def test_the_program_is_in_the_last_block_of_python(response: str, program: str | None) -> None:
    assert find_program(response) == program


@pytest.mark.parametrize(
    ("found", "wanted", "expected"),
    [
        (3, 3, True),
        (3.0, 3, True),
        (0.1 + 0.2, 0.3, True),
        (0.31, 0.3, False),
        (True, 1, False),
        (1, True, False),
        (True, True, True),
        ((1, 2), [1, 2], True),
        ([1, (2, 3)], [1, [2, 3]], True),
        ([1, 2, 3], [1, 2], False),
        ({1: "a"}, {"1": "a"}, True),
        ({1: "a", "1": "b"}, {"1": "b"}, False),
        ({"a": [1.0]}, {"a": [1]}, True),
        ("a", "a", True),
        ("1", 1, False),
        (None, None, True),
        (None, 0, False),
        ({1, 2}, [1, 2], False),
        (10**400, 1.5, False),
        (float("nan"), 1.0, False),
    ],
)
def test_values_are_compared_with_what_json_can_say(found: Any, wanted: Any, expected: bool) -> None:
    assert are_same(found, wanted) is expected
