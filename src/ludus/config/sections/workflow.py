"""How a task is attempted: `workflow`, one of several ways to go from a prompt to something that can be rewarded.

Invariant: a config names workflows, environments, tools and agent programs; it never says where their code is. To add a
kind: a model with its own `kind` here, its code in `ludus/workflows`, a line in `making.py` there.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from ludus.config.base import Model, NameAlone, Scalar, Template, kind_alone
from ludus.config.sections.rewards import SandboxConfig

NAME = r"^[a-z][a-z0-9_]{0,31}$"
Name = Annotated[str, Field(pattern=NAME)]


class _Workflow(Model):
    """What all workflows have."""

    max_tokens: int | None = Field(default=None, gt=0, le=131_072)
    """Tokens of one reply. Default: `explore.sampling.max_tokens`."""
    retries: int = Field(default=0, ge=0, le=100)
    """How often an attempt that failed (not one whose reward failed) is made again, each time with other seeds and
    with all of `explore.deadline_s`."""


class _Asking(_Workflow):
    """What all have that ask the task's prompt themselves."""

    system: str = Field(default="", max_length=100_000)
    """The system message; none when empty."""
    template: Template = "{prompt}"
    """What is asked; `{name}` stands for the task's field of that name."""


class SingleTurnConfig(_Asking):
    """One question, one reply."""

    kind: Literal["single_turn"] = "single_turn"


class AttemptsConfig(_Asking):
    """Up to k attempts: the model is told that its answer was wrong and tries again. The run's rewards score each."""

    kind: Literal["attempts"]
    attempts: int = Field(default=3, ge=1, le=1000)
    """Answers to one task, at most."""
    right_from: float = 1.0
    """An attempt that the run's rewards give this much, or more, is right and the last one."""
    feedback: Template = "That is not right. Try again."
    """What the model is told after a wrong attempt; `{name}` stands for the task's field of that name."""
    credit: Literal["last", "best", "each"] = "last"
    """What is rewarded: the last attempt, the best, or each reply with its own score."""
    discount: float = Field(default=1.0, gt=0, le=1)
    """What an attempt scores counts this much less for every attempt before it."""


class ToolAgentConfig(_Asking):
    """The model may call tools, as often as it likes within limits, before it answers."""

    kind: Literal["tool_agent"]
    tools: tuple[Name, ...] = Field(default=("calculator",), strict=False, min_length=1, max_length=64)
    """`calculator`, `python` (in the sandbox), and what plugins registered."""
    turns: int = Field(default=8, ge=1, le=1000)
    """Replies in one attempt; one that ends with a call then has no answer, and counts as truncated."""
    calls: int = Field(default=4, ge=1, le=100)
    """Calls in one reply; more are refused."""
    limit_s: float = Field(default=30.0, gt=0, le=3600)
    """Of one call. The model is told of one that took too long."""
    output_chars: int = Field(default=2000, gt=0, le=1_000_000)
    """What the model gets to see of a tool's result; the middle of a longer one is left out."""
    sandbox: SandboxConfig = SandboxConfig()
    """Where `python` runs."""


class GymnasiumConfig(Model):
    """A Gymnasium environment whose observations and actions are text, or numbers that words stand for."""

    kind: Literal["gymnasium"]
    id: str = Field(pattern=r"^[A-Za-z0-9_/.-]{1,200}$", examples=["FrozenLake-v1"])
    """As it is registered: by Gymnasium, an installed package, or a plugin of this run."""
    options: dict[str, Scalar] = Field(default={}, examples=[{"is_slippery": False}])
    """What it is made with."""
    rules: str = Field(default="", max_length=100_000)
    """What the model is told before the first observation."""
    observe: Literal["observation", "render"] = "observation"
    """What the model sees: observations, or what the environment draws as text (its render mode `ansi`)."""
    observations: tuple[str, ...] = Field(default=(), strict=False)
    """Words for the numbers of a Discrete observation, from the first on."""
    actions: tuple[str, ...] = Field(default=(), strict=False)
    """Words for the numbers of a Discrete action, from the first on. Default: the numbers themselves."""
    blocks: bool = False
    """Run it in a thread, because a step may take long."""


class CustomEnvironmentConfig(Model):
    """An environment that a plugin registered."""

    kind: Literal["custom"]
    name: Name
    """Name it was registered under."""
    options: dict[str, Any] = Field(default={})
    """What it is made with."""


EnvironmentConfig = Annotated[GymnasiumConfig | CustomEnvironmentConfig, Field(discriminator="kind")]


class MultiTurnConfig(_Workflow):
    """The model acts in an environment, turn by turn; the environment rewards every reply."""

    kind: Literal["multi_turn"]
    environment: EnvironmentConfig
    """What answers the model."""
    system: str = Field(default="", max_length=100_000)
    """The system message; none when empty."""
    turns: int = Field(default=16, ge=1, le=10_000)
    """Replies in one attempt; a longer one is cut and counts as truncated."""
    action: str = "whole"
    """How the action is found in a reply: `whole`, `boxed`, `bracket`, `last_line`, `choice`, `regex:...`."""
    name_actions: bool = True
    """Name the possible actions in every message, where the environment can list them."""
    invalid_reward: float = 0.0
    """For a reply in which there is no action, or none that is possible. The model may try again, within its turns."""
    credit: Literal["steps", "end"] = "steps"
    """Whether each reply is given what the environment gave for it, or the last reply everything."""


class AgentConfig(_Workflow):
    """A program that speaks the OpenAI API and knows nothing of ludus: its calls are answered by the policy, recorded
    token by token, and learnt from."""

    kind: Literal["agent"]
    name: Name
    """Name that a plugin registered it under."""
    options: dict[str, Any] = Field(default={})
    """JSON values that the program is given beside the task's fields."""


class CustomWorkflowConfig(_Workflow):
    """A workflow that a plugin registered."""

    kind: Literal["custom"]
    name: Name
    """Name it was registered under."""
    options: dict[str, Any] = Field(default={})
    """What it is made with."""


WorkflowConfig = Annotated[
    SingleTurnConfig | AttemptsConfig | ToolAgentConfig | MultiTurnConfig | AgentConfig | CustomWorkflowConfig,
    Field(discriminator="kind"),
    BeforeValidator(kind_alone),
    NameAlone(),
]
"""How a task is attempted. The name of a kind that needs no settings may stand for the whole."""
