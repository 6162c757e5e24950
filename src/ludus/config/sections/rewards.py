"""Rewards of an attempt at a task: a list, each with a weight; the policy learns from the sum.

Invariant: every reward has a label of its own, under which it is logged. A reward is a number for one response; what it
means and where it may fail is in `ludus.rewards`, under the same `kind`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from ludus.config.base import Model

LABEL = r"^[a-z][a-z0-9_]{0,31}$"


class _Reward(Model):
    """What all rewards have."""

    label: str | None = Field(default=None, pattern=LABEL)
    """The name under which it is logged. Default: its kind, or the name of a custom reward."""
    weight: float = 1.0
    """Of this reward in the sum."""


class ExactRewardConfig(_Reward):
    """1 if the response is the answer, else 0."""

    kind: Literal["exact"]
    answer: str = "answer"
    """Field of the task that has the answer, or a list of answers of which any is right."""
    find: str = "whole"
    """How the answer is found in the response: `whole`, `boxed`, `bracket`, `last_line`, `regex:...`."""
    ignore_case: bool = False
    """Whether upper and lower case are the same."""


class NumericRewardConfig(_Reward):
    """1 if the number in the response is the answer, within a tolerance, else 0."""

    kind: Literal["numeric"]
    answer: str = "answer"
    """Field of the task that has the number."""
    find: str = "number"
    """Where the number is: `number` (the last one), or in what `boxed`, `bracket`, `last_line`, `regex:...` find."""
    tolerance: float = Field(default=1e-6, ge=0)
    """How far the number may be off."""
    relative: float = Field(default=0.0, ge=0)
    """How far it may be off besides, as a share of the answer."""


class MathsRewardConfig(_Reward):
    """1 if the answer in the response equals the task's as mathematics (1/2, 0.5, \\frac{1}{2}), else 0."""

    kind: Literal["maths"]
    answer: str = "answer"
    """Field of the task that has the answer."""
    find: str = "answer"
    """Where it is: `answer` (the last \\boxed{}, else what follows "answer is" or ####, else the last number), or
    `boxed`, `whole`, `last_line`, `regex:...`."""
    tolerance: float = Field(default=1e-6, ge=0)
    """How far numbers that are no fractions (roots, pi) may be off, as a share."""


class MathVerifyRewardConfig(_Reward):
    """As `maths`, by the package math-verify (sympy), for figures that can be compared with others'."""

    kind: Literal["math_verify"]
    answer: str = "answer"
    """Field of the task that has the answer."""
    limit_s: float = Field(default=30.0, gt=0, le=3600)
    """An answer that takes longer is given up, with its process, and costs the episode."""
    processes: int = Field(default=1, gt=0, le=64)
    """In each explorer, for it and all custom rewards: the largest number counts."""


class ChoiceRewardConfig(_Reward):
    """1 if the response chooses the right option, else 0."""

    kind: Literal["choice"]
    answer: str = "answer"
    """Field of the task that has the right option: its letter, or its number from 0."""
    letters: str = Field(default="ABCDE", min_length=2, max_length=26, pattern=r"^[A-Z]+$")
    """The options' letters."""
    choices: str | None = None
    """Field of the task that lists the options' texts, where a response may say the text instead of the letter."""


class ResponseFormatRewardConfig(_Reward):
    """1 if the response has the form that was asked for, else 0. Give `pattern` or `tags`."""

    kind: Literal["format"]
    pattern: str | None = Field(default=None, max_length=256)
    """A regular expression that is looked for in the last 4,096 characters, in linear time: without back-references
    and without looking ahead or behind."""
    tags: tuple[str, ...] = Field(default=(), strict=False)
    """The response is `<a>...</a><b>...</b>` for these tags, each once and in this order, and nothing else."""

    @model_validator(mode="after")
    def _have_one(self) -> ResponseFormatRewardConfig:
        if (self.pattern is None) == (not self.tags):
            raise ValueError("expected either pattern or tags")
        if any(not tag.isidentifier() for tag in self.tags) or len(set(self.tags)) < len(self.tags):
            raise ValueError("expected tags of letters, digits and _, each once")
        return self


class LengthRewardConfig(_Reward):
    """0 up to a length, then falling to -1: the soft overlong punishment of DAPO."""

    kind: Literal["length"]
    longest: int = Field(gt=0)
    """From this length on the reward is -1."""
    buffer: int = Field(gt=0)
    """It begins to fall this much earlier."""
    unit: Literal["tokens", "characters", "words"] = "tokens"
    """Tokens are those that were sampled."""

    @model_validator(mode="after")
    def _fit(self) -> LengthRewardConfig:
        if self.buffer > self.longest:
            raise ValueError(f"expected a buffer of at most longest ({self.longest})")
        return self


class SandboxConfig(Model):
    """What a program of a model may use while it runs."""

    cpu_s: int = Field(default=5, gt=0, le=3600)
    """Processor time of each of its processes."""
    wall_s: float = Field(default=15.0, gt=0, le=3600)
    """From its start to its end."""
    memory_mb: int = Field(default=512, ge=64, le=1_000_000)
    """Of one program."""
    disk_mb: int = Field(default=16, gt=0, le=100_000)
    """All that it writes; it is gone afterwards."""
    processes: int = Field(default=8, gt=0, le=1000)
    """At the same time, threads too."""
    output_kb: int = Field(default=256, gt=0, le=100_000)
    """Kept of what it prints."""
    packages: bool = False
    """Let it import what is installed beside ludus, not only the standard library."""
    in_flight: int | None = Field(default=None, gt=0, le=1024)
    """Programs at the same time, in each explorer. Default: as many as there are cores."""


class CodeRewardConfig(_Reward):
    """Runs the program in the response against the task's tests, in the sandbox."""

    kind: Literal["code"]
    tests: str = "tests"
    """Field of the task that has the tests: pairs of `input` and `output`, calls with `call`, `args` and `expected`, or
    test code."""
    entry: str = "entry"
    """Field of the task that has the name of the function that test code calls `candidate`, if there is one."""
    preparation: str = "preparation"
    """Field of the task that has code that test code needs, if there is any."""
    find: Literal["fenced", "whole"] = "fenced"
    """Where the program is: in the last fenced block, or the whole response."""
    score: Literal["all", "share"] = "all"
    """`all`: 1 if every test passes, else 0. `share`: the share of tests that pass."""
    sandbox: SandboxConfig = SandboxConfig()


class JudgeRewardConfig(_Reward):
    """The score of an LLM judge behind an endpoint."""

    kind: Literal["judge"]
    endpoint: str = Field(min_length=1, examples=["gpt"])
    """The judge: a name of `explore.endpoints`."""
    rubric: str = Field(min_length=1, max_length=20_000, examples=["Is the proof complete and correct?"])
    """What is asked of a response."""
    answer: str | None = None
    """Field of the task with a reference answer that the judge is shown. Default: none is shown."""
    lowest: float = 0.0
    """The worst score."""
    highest: float = 1.0
    """The best score."""
    max_tokens: int = Field(default=512, gt=0, le=131_072)
    """Of a verdict."""
    limit_s: float = Field(default=120.0, gt=0)
    """A judge that has not answered by then costs the episode."""

    @model_validator(mode="after")
    def _have_room(self) -> JudgeRewardConfig:
        if self.lowest >= self.highest:
            raise ValueError(f"expected a highest score above the lowest ({self.lowest:g})")
        return self


class ModelRewardConfig(_Reward):
    """What a reward model says: a language model with a scalar head."""

    kind: Literal["reward_model"]
    path: str = Field(min_length=1, examples=["models/reward", "runs/judge/policies/main/000040"])
    """A folder or hub id of a sequence classifier with one output, or a published version of a policy with a critic."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type that the reward model computes in."""
    context: int | None = Field(default=None, gt=1)
    """Tokens of prompt and response. A longer one costs the episode. Default: what the model was made for, at most
    4,096."""
    squash: bool = False
    """Put the score through the logistic function, into 0 to 1."""


class CustomRewardConfig(_Reward):
    """A reward that a plugin registered. It runs in a process of its own."""

    kind: Literal["custom"]
    name: str = Field(pattern=LABEL)
    """Name it was registered under."""
    options: dict[str, Any] = Field(default={})
    """What it finds in `attempt.options`; JSON values."""
    limit_s: float = Field(default=30.0, gt=0, le=3600)
    """One that takes longer is ended, with its process, and costs the episode."""
    processes: int = Field(default=1, gt=0, le=64)
    """In each explorer, for all custom rewards: the largest number counts."""


RewardConfig = Annotated[
    ExactRewardConfig
    | NumericRewardConfig
    | MathsRewardConfig
    | MathVerifyRewardConfig
    | ChoiceRewardConfig
    | ResponseFormatRewardConfig
    | LengthRewardConfig
    | CodeRewardConfig
    | JudgeRewardConfig
    | ModelRewardConfig
    | CustomRewardConfig,
    Field(discriminator="kind"),
]


def label_of(reward: _Reward) -> str:
    """The name under which a reward is logged."""
    return reward.label or str(getattr(reward, "name", getattr(reward, "kind", "")))


def _check_labels(rewards: tuple[Any, ...]) -> tuple[Any, ...]:
    labels = [label_of(reward) for reward in rewards]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise ValueError(f"{twice[0]} is there twice; give each a label of its own")
    return rewards


RewardConfigs = Annotated[tuple[RewardConfig, ...], Field(strict=False), AfterValidator(_check_labels)]
"""The rewards of a run; no two have the same label."""
