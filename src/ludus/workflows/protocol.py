"""What a workflow is: a way to go from a task to an outcome by talking with the policy; and what an outcome is. Users'
own are found by name: registered by a plugin, or an entry point of the group `ludus.workflows`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any, Protocol

from ludus.errors import ConfigError, EnvError
from ludus.plugin_frames import in_words
from ludus.plugins import Registry
from ludus.records import Task
from ludus.rewards.attempt import check_value
from ludus.workflows.rollout_model import RolloutModel

WORKFLOWS: Registry[Callable[..., Any]] = Registry("workflow", "ludus.workflows")
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


class Workflow(Protocol):
    """Attempts tasks, hundreds at the same time, in one event loop. Keeps nothing of one attempt for another."""

    many_chats: bool
    """Whether an attempt may have more than one chat; then sequences say which chat they are."""

    async def run(self, task: Task, model: RolloutModel) -> Outcome | str | float | None:
        """Attempt a task. Called once for each attempt, with a model of its own.

        Raises:
            RolloutError: the attempt failed; whatever else it raises counts as one, too.
        """
        ...

    async def close(self) -> None:
        """Give everything back. Called once, at the end."""
        ...


def register_workflow(name: str, workflow: Callable[..., Any]) -> None:
    """Make a workflow known under a name, for `workflow: {kind: custom, name: ...}`.

    Args:
        name: Small letters, digits and _.
        workflow: An async function of a task and a `RolloutModel`, or a class with such a method `run`. The options of
            the config are further arguments of the function, or those that the class is made with.
    """
    if not callable(workflow):
        raise ConfigError(f"workflow {name!r}: expected an async function or a class, got {type(workflow).__name__}")
    WORKFLOWS.add(name, workflow)


class CustomWorkflow:
    """What was registered, with the face of a workflow."""

    def __init__(self, name: str, found: Callable[..., Any], options: Mapping[str, Any]) -> None:
        """
        Raises:
            ConfigError: it is no workflow, or cannot be made with these options.
        """
        self._made: Any = None
        if inspect.isclass(found):
            try:
                self._made = found(**options)
            except Exception as error:  # whatever a user's class may raise
                raise ConfigError(f"workflow {name!r} could not be made: {in_words(error)}") from error
        run = found if self._made is None else getattr(self._made, "run", None)
        if not inspect.iscoroutinefunction(run):
            raise ConfigError(f"workflow {name!r}: expected an async function of a task and a model")
        self._run: Callable[..., Any] = partial(run, **options) if self._made is None else run
        self.many_chats = bool(getattr(self._made or found, "many_chats", True))

    async def run(self, task: Task, model: RolloutModel) -> Any:
        """Whatever the user's code comes to."""
        return await self._run(task, model)

    async def close(self) -> None:
        """Close what was made, if it can be closed."""
        closing = getattr(self._made, "close", None)
        if closing is not None and inspect.isawaitable(closed := closing()):
            await closed


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
