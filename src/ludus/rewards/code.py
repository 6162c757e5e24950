"""`code`: the program in the response passes the task's tests, in the ways that tasksets write them.

    [{"input": "1 2\\n", "output": "3\\n"}, ...]                          a script: text in, text out
    {"inputs": [...], "outputs": [...]}                                  the same; with "fn_name": calls
    [{"call": "add", "args": [1, 2], "expected": 3}, ...]                functions; "Solution.add" for a method
    "assert add(1, 2) == 3" or a list of such                            test code
    "def check(candidate): ..." and the task's entry                     test code, as in HumanEval

JSON in a text is read as JSON. Anything else is refused, which costs the episode.

Invariant: what a program is to print or to return never enters its process; it is compared here, or by test code in
another sandbox. A program that fails in any way is worth 0; only a sandbox or a task that fails is an error.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ludus.config.sections.rewards import CodeRewardConfig
from ludus.errors import RewardError
from ludus.rewards.attempt import Attempt, Mark
from ludus.sandbox.execution import Call, Ran
from ludus.sandbox.sandbox import Sandbox, make_sandbox

MOST_TESTS = 1_000
_DEFINES_CHECK = re.compile(r"^def check\(", re.MULTILINE)
_CALLS_CHECK = re.compile(r"^check\(", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeTests:
    """Tests of one of the three kinds; the other two lists are empty."""

    scripts: tuple[tuple[str, str], ...] = ()
    """Input and the output that it should have."""
    calls: tuple[tuple[Call, Any], ...] = ()
    """A call and what it should return."""
    codes: tuple[str, ...] = ()
    """Pieces of test code, each of which passes if it raises nothing."""
    preparation: str = ""
    entry: str = ""

    def __len__(self) -> int:
        return len(self.scripts) + len(self.calls) + len(self.codes)


def read_tests(tests: Any, *, preparation: Any = None, entry: Any = None) -> CodeTests:
    """The tests in a task's field. Raises RewardError if there are none that can be understood."""
    tests = _from_json(tests)
    if isinstance(tests, Mapping):
        tests = _pairs(tests)
    if isinstance(tests, str):
        tests = [tests]
    if not isinstance(tests, Sequence) or not 0 < len(tests) <= MOST_TESTS:
        raise RewardError(f"the task's tests are no list of 1 to {MOST_TESTS} tests")
    if all(isinstance(test, str) for test in tests):
        return _codes(list(tests), str(preparation or ""), str(entry or ""))
    if all(isinstance(test, Mapping) and {"input", "output"} <= test.keys() for test in tests):
        return CodeTests(scripts=tuple((_text(test["input"]), _text(test["output"])) for test in tests))
    if all(isinstance(test, Mapping) and {"call", "expected"} <= test.keys() for test in tests):
        return CodeTests(calls=tuple(map(_call, tests)))
    raise RewardError("the task's tests are neither pairs of input and output, nor calls, nor test code")


def _from_json(tests: Any) -> Any:
    if not isinstance(tests, str) or not tests.lstrip().startswith(("[", "{")):
        return tests
    try:
        return json.loads(tests)
    except (ValueError, RecursionError):
        return tests


def _pairs(tests: Mapping[str, Any]) -> list[dict[str, Any]]:
    inputs, outputs = tests.get("inputs"), tests.get("outputs")
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
        raise RewardError("the task's tests are no lists of inputs and outputs of the same length")
    name = tests.get("fn_name")
    if not name:
        return [{"input": one, "output": other} for one, other in zip(inputs, outputs, strict=True)]
    calls = [{"call": str(name), "args": one} for one in inputs]
    return [{**call, "expected": other} for call, other in zip(calls, outputs, strict=True)]


def _call(test: Mapping[str, Any]) -> tuple[Call, Any]:
    name, args, kwargs = test["call"], test.get("args", []), test.get("kwargs", {})
    parts = name.split(".") if isinstance(name, str) else []
    if not 1 <= len(parts) <= 2 or not all(part.isidentifier() for part in parts):
        raise RewardError(f"the task's test calls {str(name)[:60]!r}, which is no name of a function or method")
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise RewardError(f"the task's test of {name} has no list of args or no mapping of kwargs")
    return Call(name=name, args=args, kwargs=kwargs), test["expected"]


def _codes(tests: list[str], preparation: str, entry: str) -> CodeTests:
    """Test code; a `check` that is defined and never called is called with the entry."""
    if any(map(_DEFINES_CHECK.search, tests)) and not any(map(_CALLS_CHECK.search, tests)):
        if not entry:
            raise RewardError("the task's tests define check(candidate), and the task has no entry to call it with")
        return CodeTests(
            codes=("check(candidate)",), preparation="\n\n".join([preparation, *tests]).strip(), entry=entry
        )
    return CodeTests(codes=tuple(tests), preparation=preparation, entry=entry)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)


MOST_SOURCE_CHARS = 200_000
CLOSE = 1e-9
"""How far floats may be off, as a share."""
_FENCE = re.compile(r"^[ \t]{0,3}```", re.MULTILINE)


class CodeReward:
    """Runs programs."""

    def __init__(self, config: CodeRewardConfig, sandbox: Sandbox | None = None) -> None:
        self._config = config
        self._sandbox = sandbox or make_sandbox(config.sandbox)

    async def mark(self, attempt: Attempt) -> Mark:
        """1 or 0, or the share of tests that pass."""
        inputs, config = attempt.inputs, self._config
        tests = read_tests(
            attempt.need(config.tests), preparation=inputs.get(config.preparation), entry=inputs.get(config.entry)
        )
        source = find_program(attempt.response) if config.find == "fenced" else attempt.response
        if source is None or len(source) > MOST_SOURCE_CHARS:
            return Mark(value=0.0, note="no program found" if source is None else "the program is too long")
        problems = await self._problems(source, tests, attempt.seed)
        passed = problems.count("")
        value = passed / len(tests) if config.score == "share" else float(passed == len(tests))
        first = next((problem for problem in problems if problem), "")
        return Mark(value=value, note=f"{passed} of {len(tests)} tests passed" + (f"; {first}" if first else ""))

    async def close(self) -> None:
        """End all programs."""
        self._sandbox.close()

    async def _problems(self, source: str, tests: CodeTests, seed: int) -> list[str]:
        """Why each test failed, empty if it passed. Where all must pass, those after the first that fails may lack."""
        if tests.codes:
            return await self._sandbox.test(
                source, tests.codes, preparation=tests.preparation, entry=tests.entry, seed=seed
            )
        if tests.calls:
            replies = await self._sandbox.call(source, [call for call, _ in tests.calls], seed=seed)
            wanted = [expected for _, expected in tests.calls]
            return [
                reply.problem or _difference(reply.value, value) for reply, value in zip(replies, wanted, strict=True)
            ]
        problems: list[str] = []
        for given, wanted_output in tests.scripts:
            problems.append(_script_problem(await self._sandbox.run(source, given, seed=seed), wanted_output))
            if problems[-1] and self._config.score == "all":
                break
        return problems


def find_program(response: str) -> str | None:
    """What is in the last fenced block of Python, else in the last of any; one that was cut off at the end counts.

    None when there is no block.
    """
    fences = [match.start() for match in _FENCE.finditer(response)]
    pairs = zip(fences[::2], [*fences[1::2], len(response)], strict=False)
    blocks = [response[start:end].lstrip().removeprefix("```").partition("\n") for start, end in pairs]
    python = [block for block in blocks if block[0].strip().lower().startswith("py")]
    return (python or blocks)[-1][2] if blocks else None


def _script_problem(ran: Ran, wanted: str) -> str:
    if not ran.ended.is_clean:
        lines = ran.stderr.strip().splitlines()
        return f"the program {ran.ended}" + (f" ({lines[-1][:200]})" if lines else "")
    if ran.is_cut:
        return "the program printed too much"
    return "" if _lines(ran.stdout) == _lines(wanted) else f"the program printed {ran.stdout[:100]!r}"


def _lines(text: str) -> list[str]:
    """The lines of a text without the space at their ends and without empty ones at the end of it."""
    return [line.rstrip() for line in text.rstrip().splitlines()]


def _difference(found: Any, wanted: Any) -> str:
    if are_same(found, wanted):
        return ""
    try:
        return f"the solution returned {repr(found)[:100]}"
    except ValueError:  # numbers of very many digits are not written out
        return "the solution returned something else"


def are_same(found: Any, wanted: Any) -> bool:
    """Whether a returned value is the expected one, which came from JSON: tuples count as lists, floats nearly."""
    if isinstance(wanted, bool) or isinstance(found, bool):
        return found is wanted
    if isinstance(wanted, list) and isinstance(found, list | tuple):
        return len(found) == len(wanted) and all(map(are_same, found, wanted))
    if isinstance(wanted, dict) and isinstance(found, dict):
        named = {str(key): value for key, value in found.items()}
        return (
            len(named) == len(found)
            and named.keys() == wanted.keys()
            and all(are_same(named[key], value) for key, value in wanted.items())
        )
    if isinstance(wanted, float | int) and isinstance(found, float | int):
        exact = isinstance(wanted, int) and isinstance(found, int)
        return found == wanted if exact else _are_close(found, wanted)
    return type(found) is type(wanted) and bool(found == wanted)


def _are_close(one: float, other: float) -> bool:
    try:
        return math.isclose(one, other, rel_tol=CLOSE, abs_tol=CLOSE)
    except OverflowError:
        return False
