"""What an engineer brings: `tasks`, a list of tasksets, each with its processors and its order.

Invariant: nothing here opens a file; a config says where tasks come from, `ludus.tasks` reads them. To add a processor
or an order: a model with its own `kind` here, its code in `ludus/tasks/processors.py` or `curricula.py`, and a
line in the registry there (a test compares the two).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from ludus.config.base import CustomPart, Model, NameAlone, Scalar, Template, kind_alone
from ludus.config.problems import Contradiction, Path, at
from ludus.config.sections.rewards import RewardConfigs
from ludus.config.sections.sampling import SamplingConfig
from ludus.config.sections.workflow import WorkflowConfig

if TYPE_CHECKING:
    from ludus.config.run import RunConfig

RESERVED_FIELDS = ("row", "group_seed")
"""What a task says about itself; a row cannot have fields of these names."""


def _check_field(name: str) -> str:
    if name in RESERVED_FIELDS:
        raise ValueError(f"expected another name than {' and '.join(RESERVED_FIELDS)}, which tasks use themselves")
    if not re.fullmatch(r"[A-Za-z_]\w{0,63}", name, re.ASCII):
        raise ValueError("expected a field's name, of letters, digits and underscores")
    return name


FieldName = Annotated[str, AfterValidator(_check_field)]


# -- processors --------------------------------------------------------------------------------------------------------


class TaskFilterConfig(Model):
    """Keep the rows of which everything said here is true. A row without the field is dropped."""

    kind: Literal["filter"]
    field: str = Field(min_length=1, max_length=256, examples=["answer"])
    """The field of a row that is looked at."""
    equals: Scalar | None = None
    """Keep what is this."""
    differs: Scalar | None = None
    """Keep what is not this."""
    one_of: tuple[Scalar, ...] | None = Field(default=None, strict=False, min_length=1)
    """Keep what is one of these."""
    at_least: float | None = None
    """Numbers, and text that reads as one."""
    at_most: float | None = None
    """As `at_least`."""
    min_length: int | None = Field(default=None, ge=0)
    """Characters of a text, entries of a list."""
    max_length: int | None = Field(default=None, ge=0)
    """As `min_length`."""

    @model_validator(mode="after")
    def _says_something(self) -> TaskFilterConfig:
        if not self.model_fields_set - {"kind", "field"}:
            raise ValueError("expected a comparison beside the field, such as max_length: 200")
        return self


class TaskMapConfig(Model):
    """Make fields from templates; `{name}` stands for the row's field of that name as it was before."""

    kind: Literal["map"]
    fields: dict[FieldName, Template] = Field(min_length=1, examples=[{"prompt": "Question: {question}\nAnswer:"}])
    """Each field with the template that makes it."""


class TaskDeduplicateConfig(Model):
    """Keep the first of the rows that are alike."""

    kind: Literal["deduplicate"]
    fields: tuple[str, ...] = Field(default=("prompt",), strict=False, min_length=1)
    """Rows are alike when these fields are."""
    how: Literal["exact", "normalised"] = "exact"
    """`normalised`: whatever the case, the width of the spaces and the way in which characters are composed."""


class ScoreDifficultyConfig(Model):
    """Give each row a `difficulty` between 0 (easiest) and 1: the share of the other rows that are easier."""

    kind: Literal["score_difficulty"]
    field: str = Field(default="prompt", min_length=1, max_length=256)
    """What it is scored by."""
    by: Literal["length", "value"] = "length"
    """`length`: characters of a text, entries of a list. `value`: numbers, and text that reads as one."""
    harder: Literal["higher", "lower"] = "higher"
    """`lower`: the smaller the harder, as with rates of success."""


class PrioritiseConfig(Model):
    """Sort the rows, those with the highest weighted sum first."""

    kind: Literal["prioritise"]
    weights: dict[str, float] = Field(min_length=1, examples=[{"quality": 1.0, "difficulty": -0.5}])
    """Of numeric fields, each of which counts by its rank between 0 and 1."""
    keep: int | None = Field(default=None, gt=0)
    """Rows that remain. Default: all."""


class CustomProcessorConfig(CustomPart):
    """A processor that a plugin registered."""


ProcessorConfig = Annotated[
    TaskFilterConfig
    | TaskMapConfig
    | TaskDeduplicateConfig
    | ScoreDifficultyConfig
    | PrioritiseConfig
    | CustomProcessorConfig,
    Field(discriminator="kind"),
    BeforeValidator(kind_alone),
    NameAlone(),
]


# -- orders ------------------------------------------------------------------------------------------------------------


class SequentialConfig(Model):
    """As they stand in the set, every epoch alike."""

    kind: Literal["sequential"]


class ShuffleConfig(Model):
    """Every task once in each epoch, in an order that each epoch draws anew."""

    kind: Literal["shuffle"] = "shuffle"


class RandomConfig(Model):
    """Any task at any time, drawn with replacement."""

    kind: Literal["random"]


class EasyToHardConfig(Model):
    """Every task once in each epoch, by rising `difficulty`; what is equally hard is shuffled anew in each epoch."""

    kind: Literal["easy_to_hard"]
    levels: int | None = Field(default=None, gt=0, le=1000)
    """Count tasks as equally hard that are in the same of this many equal parts of the set. Default: only those that
    have the same difficulty."""


class AdaptiveConfig(Model):
    """Tasks that the policy solves about as often as `target`, by a belief about each of them (Thompson sampling)."""

    kind: Literal["adaptive"]
    target: float = Field(default=0.5, gt=0, lt=1)
    """The rate of success to steer for."""
    half_life: float = Field(default=256.0, gt=0)
    """Groups after which what was seen of a task counts half, since the policy has changed."""
    candidates: int = Field(default=32, gt=0, le=4096)
    """Tasks among which each group's is chosen; every task is a candidate once in a sweep over the set."""
    lowest: float = 0.0
    """The reward that counts as failure; rewards in between count in part."""
    highest: float = 1.0
    """The reward that counts as success."""

    @model_validator(mode="after")
    def _lowest_below_highest(self) -> AdaptiveConfig:
        if self.lowest >= self.highest:
            raise ValueError(f"expected lowest ({self.lowest}) below highest ({self.highest})")
        return self


class CustomOrderConfig(CustomPart):
    """A curriculum that a plugin registered."""


OrderConfig = Annotated[
    SequentialConfig | ShuffleConfig | RandomConfig | EasyToHardConfig | AdaptiveConfig | CustomOrderConfig,
    Field(discriminator="kind"),
    BeforeValidator(kind_alone),
    NameAlone(),
]


# -- tasksets ----------------------------------------------------------------------------------------------------------


class TasksetConfig(Model):
    """One set of tasks: rows with a `prompt`, mostly an `answer`, and whatever else rewards and workflows need."""

    shorthand: ClassVar[str] = "a file, folder or id such as data/train.jsonl"

    path: str = Field(min_length=1, max_length=4096, examples=["data/train.jsonl"])
    """A file of JSON lines or Parquet; a folder or an id of a Hugging Face dataset; or a set that ludus makes itself,
    such as `ludus/arithmetic?digits=2&ops=+-&count=5000`."""
    name: str = Field(default="", pattern=r"^[a-z][a-z0-9_-]{0,31}$", examples=["gsm8k"])
    """Its tasks are those of the game `tasks:<name>`. Default: made from the path."""
    format: Literal["auto", "jsonl", "parquet", "hub"] = "auto"
    """`auto`: by the path."""
    split: str | None = Field(default=None, min_length=1, max_length=256, examples=["train"])
    """Which part of a dataset, or of a set that ludus makes itself. Default: train, or the only one."""
    subset: str | None = Field(default=None, min_length=1, max_length=256)
    """Which configuration of a Hugging Face dataset, where it has several."""
    fields: dict[FieldName, str] = Field(default={}, examples=[{"prompt": "question", "answer": "solution"}])
    """What a row is made of: its fields, and the column that each comes from (`a.b` is b inside of a). Default: every
    column, under its own name."""
    weight: float = Field(default=1.0, gt=0)
    """Relative frequency among the run's tasksets and games."""
    limit: int | None = Field(default=None, gt=0)
    """Read no more than this many rows."""
    strict: bool = False
    """Refuse the whole set for one bad row, instead of that row."""
    processors: tuple[ProcessorConfig, ...] = Field(default=(), strict=False)
    """What happens to the rows before the run, in this order."""
    workflow: WorkflowConfig | None = None
    """How its tasks are attempted. Default: the run's `workflow`."""
    rewards: RewardConfigs | None = None
    """What an attempt at one of its tasks is worth. Default: the run's `rewards`."""
    sampling: SamplingConfig | None = None
    """How replies to its tasks are sampled; keys that are left out are those of `explore.sampling`."""
    order: OrderConfig = ShuffleConfig()
    """In which order tasks are attempted: sequential, shuffle, random, easy_to_hard, adaptive, or a plugin's."""

    @property
    def game(self) -> str:
        """What its tasks have as their game."""
        return f"tasks:{self.name}"

    @model_validator(mode="before")
    @classmethod
    def _accept_bare_path(cls, value: Any) -> Any:
        value = {"path": value} if isinstance(value, str) else value
        if isinstance(value, dict) and "name" not in value and isinstance(value.get("path"), str):
            return {**value, "name": _name_of(value["path"])}
        return value


def _name_of(path: str) -> str:
    stem = path.partition("?")[0].rstrip("/").rpartition("/")[2].partition(".")[0]
    words = re.sub(r"[^a-z0-9_-]+", "_", stem.lower()).strip("_-")[:32]
    return words if words[:1].isalpha() else f"tasks_{words}"[:32].rstrip("_-")


def check_tasks(config: RunConfig) -> Iterator[Contradiction]:
    """Everything about games and tasks that cannot hold together."""
    if not config.games and not config.tasks:
        yield at("games", "there is nothing to do; write games: [pgx:connect_four], or tasks: [data/train.jsonl]")
    if not config.tasks:
        yield from _only_with_tasks(config)
        return
    if config.policy.model is None:
        yield at("policy.model", "tasks are for language models; write policy: {model: {path: ...}}")
    if not config.rewards and not all(taskset.rewards for taskset in (*config.tasks, *config.evaluate.tasks)):
        yield at("rewards", "tasks need rewards; write rewards: [{kind: exact}]")
    if not config.games:
        yield from _no_opponents(config)
    yield from _repeated_names(config)


def _only_with_tasks(config: RunConfig) -> Iterator[Contradiction]:
    if config.rewards and not config.evaluate.tasks:
        yield at("rewards", "a game gives its own rewards; leave them out, or write tasks instead of games")
    if config.evaluate.tasks and config.policy.model is None:
        yield at("evaluate.tasks", "are for language models; give policy.model, or leave them out")
    if not config.rewards and not all(taskset.rewards for taskset in config.evaluate.tasks):
        yield at("rewards", "evaluate.tasks need rewards; write rewards: [{kind: exact}]")
    yield from _repeated_names(config)


def _no_opponents(config: RunConfig) -> Iterator[Contradiction]:
    for i, opponent in enumerate(config.league.opponents):
        if opponent.kind != "mirror":
            path: Path = ("league", "opponents", i, "kind")
            yield at(path, "a task has no opponents; write league: {opponents: [{kind: mirror}]}, or leave it out")
    if config.evaluate.against and not config.evaluate.held_out_games:
        yield at("evaluate.against", "a task has no opponents; write evaluate: {tasks: [...]}")
    for i, source in enumerate(config.buffer.expert.sources if config.buffer.expert else ()):
        if source.kind == "bots":
            text = "bots play the run's games, and it has none; write games, or leave this source out"
            yield at(("buffer", "expert", "sources", i, "kind"), text)
    if config.warm_start is not None:
        yield at("warm_start", "is for games; learn from examples first with buffer.expert and the preset sft")


def _repeated_names(config: RunConfig) -> Iterator[Contradiction]:
    seen: dict[str, str] = {}
    for where, sets in ((("tasks",), config.tasks), (("evaluate", "tasks"), config.evaluate.tasks)):
        for place, taskset in enumerate(sets):
            path: Path = (*where, place, "name")
            if taskset.name in seen:
                yield at(path, f"{taskset.name} is already the name of {seen[taskset.name]}; write another")
            seen.setdefault(taskset.name, ".".join(map(str, path[:-1])))
