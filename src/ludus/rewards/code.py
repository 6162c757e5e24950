"""`code`: the program in the response passes the task's tests.

Invariant: what a program is to print or to return never enters its process; it is compared here, or by test code in
another sandbox. A program that fails in any way is worth 0; only a sandbox or a task that fails is an error.
"""

from __future__ import annotations

import math
import re
from typing import Any

from ludus.config import CodeRewardConfig
from ludus.rewards.attempt import Attempt, Mark
from ludus.rewards.code_tests import CodeTests, read_tests
from ludus.sandbox.sandbox import Sandbox, make_sandbox
from ludus.sandbox.scripts import Ran

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
