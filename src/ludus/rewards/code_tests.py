"""The tests of a programming task, in the ways that tasksets write them.

    [{"input": "1 2\\n", "output": "3\\n"}, ...]                          a script: text in, text out
    {"inputs": [...], "outputs": [...]}                                  the same; with "fn_name": calls
    [{"call": "add", "args": [1, 2], "expected": 3}, ...]                functions; "Solution.add" for a method
    "assert add(1, 2) == 3" or a list of such                            test code
    "def check(candidate): ..." and the task's entry                     test code, as in HumanEval

JSON in a text is read as JSON. Anything else is refused, which costs the episode.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ludus.errors import RewardError
from ludus.sandbox.solutions import Call

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
    """The tests in a task's field.

    Raises:
        RewardError: there are none that can be understood.
    """
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
