"""`check_reward`: calls a reward of your own with ordinary and with hostile attempts, and checks what comes back.

Covered: the value (a finite number of ordinary size), repetition, independence of the order of attempts, the task's
fields left alone, no exception for anything that a model may write, time. Not covered: whether the reward is any good.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import replace

from ludus.errors import RewardError
from ludus.rewards.attempt import Attempt
from ludus.rewards.registry import RewardFunction
from ludus.rewards.worker import call_reward
from ludus.testing.conformance import ConformanceError, require

HOSTILE = (
    "",
    " \n\t ",
    "\x00\x1b[31m\ud800",
    "answer: " + "9" * 5_000,
    "9**9**9**9",
    "1e999999999",
    "nan",
    "__import__('os').system('true')",
    "().__class__.__base__.__subclasses__()",
    "\\boxed{" * 2_000,
    "(" * 5_000,
    "<think>" * 2_000,
    "`" * 10_000,
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!" * 500,
    "🙂" * 10_000,
)
"""What models write, sooner or later."""


def check_reward(function: RewardFunction, attempts: Sequence[Attempt], *, limit_s: float = 5.0) -> None:
    """Check a reward with attempts at tasks like yours; raise `ConformanceError` naming the promise that it breaks.

    Each attempt is also made with responses that no one would hope for. `limit_s` is for one call.
    """
    require(callable(function), "a reward is a function of an attempt")
    require(bool(attempts), "a reward is checked with at least one attempt at a task like yours")
    spoilt = [replace(attempt, response=response) for attempt in attempts for response in HOSTILE]
    every = [*attempts, *spoilt]
    values = [_value(function, attempt, limit_s) for attempt in every]
    again = [_value(function, attempt, limit_s) for attempt in reversed(every)][::-1]
    for attempt, first, second in zip(every, values, again, strict=True):
        require(
            first == second,
            f"the same attempt has the same reward, in any order; {_shown(attempt)} had {first!r}, then {second!r}",
        )


def _value(function: RewardFunction, attempt: Attempt, limit_s: float) -> float:
    before = copy.deepcopy((dict(attempt.inputs), dict(attempt.options)))
    start = time.monotonic()
    try:
        value = call_reward(function, attempt).value
    except RewardError as error:
        raise ConformanceError(f"every response has a reward; for {_shown(attempt)}: {error}") from error
    took_s = time.monotonic() - start
    require(took_s <= limit_s, f"a reward takes at most {limit_s:g} s; {_shown(attempt)} took {took_s:.1f} s")
    require((dict(attempt.inputs), dict(attempt.options)) == before, "a reward leaves the task and its options alone")
    return value


def _shown(attempt: Attempt) -> str:
    return f"the response {attempt.response[:40]!r}"
