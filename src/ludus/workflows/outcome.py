"""What a workflow comes to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from ludus.errors import EnvError
from ludus.rewards.attempt import check_value

MOST_METRICS = 64
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of one attempt at a task.

    What is learnt from is `reward` and the sum of `step_rewards`. The first goes to the last token that the policy
    sampled, in every chat that it had; the others go to their replies.
    """

    response: str = ""
    """What the run's rewards score, where `reward` is None. A workflow that returns plain text has this."""
    reward: float | None = None
    """What the whole is worth. None: what the run's rewards give for `response`; nothing, if the run has none and there
    are step rewards."""
    step_rewards: Sequence[float] = ()
    """One for each reply of the policy, over all chats, in the order in which they were said; or none at all."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Numbers to log: the mean over attempts is shown."""
    truncated: bool = False
    """Whether a limit ended it."""


def as_outcome(returned: Any, *, last_reply: str, replies: int) -> Outcome:
    """What a workflow returned, checked: an `Outcome`, a response, a reward, or nothing for the last reply as response.

    Raises:
        EnvError: it is something else.
        RewardError: a reward in it is no ordinary number.
    """
    if returned is None:
        return Outcome(response=last_reply)
    if isinstance(returned, str):
        return Outcome(response=whole_text(returned))
    if isinstance(returned, Real):
        return Outcome(response=last_reply, reward=check_value(returned))
    if not isinstance(returned, Outcome):
        raise EnvError(f"the workflow returned a {type(returned).__name__}, which is no Outcome, text or reward")
    if not isinstance(returned.response, str):
        raise EnvError(f"the workflow's response is a {type(returned.response).__name__}, not text")
    steps = tuple(check_value(reward) for reward in returned.step_rewards)
    if steps and len(steps) != replies:
        raise EnvError(f"the workflow gave {len(steps)} step rewards for {replies} replies")
    return Outcome(
        response=whole_text(returned.response),
        reward=None if returned.reward is None else check_value(returned.reward),
        step_rewards=steps,
        metrics=_checked_metrics(returned.metrics),
        truncated=bool(returned.truncated),
    )


def _checked_metrics(metrics: Mapping[str, Any]) -> dict[str, float]:
    if len(metrics) > MOST_METRICS:
        raise EnvError(f"the workflow has {len(metrics)} metrics; {MOST_METRICS} is the most")
    for name in metrics:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise EnvError(f"the workflow has a metric {name!r}; expected letters, digits, _ . and -")
    return {name: check_value(float(value) if isinstance(value, bool) else value) for name, value in metrics.items()}


def whole_text(text: str) -> str:
    """Half characters cannot be written or sent."""
    return text.encode("utf-8", "replace").decode()
