"""`math_verify`: the judgement of the package math-verify (sympy), for figures that others report with it.

It runs in the process of custom rewards, which is ended when an answer takes too long: sympy may evaluate 9^9^9^9.
"""

from __future__ import annotations

import logging
from importlib.util import find_spec
from typing import Any

from ludus.errors import ConfigError, RewardError
from ludus.rewards.attempt import Attempt

NAME = "math_verify"


def check_installed() -> None:
    """Raise ConfigError unless the package is there."""
    if find_spec("math_verify") is None:
        raise ConfigError("the package math-verify is not installed; pip install 'ludus[math_verify]'")


def mark_with_math_verify(attempt: Attempt) -> float:
    """1 if the answer in the response equals the task's, which stands in the field `options["answer"]`, else 0."""
    from math_verify import parse, verify

    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns of every call without a limit of its own
    expected = str(attempt.need(attempt.options["answer"]))
    gold = _parsed(parse, expected) or _parsed(parse, f"${expected}$")
    if not gold:
        raise RewardError(f"the task's answer cannot be read as mathematics: {expected[:80]!r}")
    return float(verify(gold, _parsed(parse, attempt.response), timeout_seconds=None))


def _parsed(parse: Any, text: str) -> Any:
    """What the package finds in a text. Its own limits are signals; ours is the end of the process."""
    return parse(text, parsing_timeout=None)
