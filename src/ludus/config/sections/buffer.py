"""What batches are made of: `buffer`. The replay buffer, expert rows, preference pairs and what other runs play.

Invariant: nothing here opens a file. `ludus.ingest` fetches expert rows and pairs once, at the beginning of a run;
`ludus.sources.feeds` follows other runs. To add a kind of source: a model with its own `kind` here, and its code there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue

from ludus.config.base import Model, Template, TextOrMapping
from ludus.config.problems import Contradiction, at, no_effect, repeated
from ludus.config.sections.games import seats_per_game
from ludus.config.sections.tasks import FieldName, ProcessorConfig, TasksetConfig
from ludus.config.sections.train_presets import wanted_sources

if TYPE_CHECKING:
    from ludus.config.run import RunConfig


RUN = "{run}"
"""Stands for the run's directory."""


class RowFileConfig(Model):
    """Rows from a file of JSON lines or Parquet, a Hugging Face dataset, or a set that ludus makes itself.

    An expert row has a `prompt` and a `response`, or `messages` that end with the assistant's; a preference pair has a
    `prompt`, and `chosen` and `rejected` answers to it. `system` is what the model is told before, if anything.
    """

    kind: Literal["file"] = "file"
    path: str = Field(min_length=1, max_length=4096, examples=["data/expert.jsonl"])
    """As in `tasks`: a file, a folder, an id, or `ludus/arithmetic?...`."""
    format: Literal["auto", "jsonl", "parquet", "hub"] = "auto"
    """`auto`: by the path."""
    split: str | None = Field(default=None, min_length=1, max_length=256)
    """Which part of a dataset."""
    subset: str | None = Field(default=None, min_length=1, max_length=256)
    """Which configuration of a Hugging Face dataset, where it has several."""
    fields: dict[FieldName, str] = Field(default={}, examples=[{"prompt": "question", "response": "solution"}])
    """What a row is made of: its fields, and the column that each comes from."""
    system: str | None = Field(default=None, max_length=100_000)
    """What the model is told first, where a row does not say it itself. Default: what the run's workflow says."""
    template: Template | None = None
    """What is asked; `{name}` stands for the row's field of that name. Default: the template of the run's workflow,
    where it has one, so that experts answer what the policy is asked. Rows with `messages` are taken as they are."""
    limit: int | None = Field(default=None, gt=0)
    """Read no more than this many rows."""
    strict: bool = False
    """Refuse the whole file for one bad row, instead of that row."""
    processors: tuple[ProcessorConfig, ...] = Field(default=(), strict=False)
    """What happens to the rows first, in this order: as in `tasks`."""

    def as_taskset(self, *, name: str) -> TasksetConfig:
        """How `ludus.tasks.load_taskset` is asked for these rows."""
        shared = {key: getattr(self, key) for key in TasksetConfig.model_fields if key in type(self).model_fields}
        return TasksetConfig(name=name, **shared)


class RunEpisodesConfig(Model):
    """What a policy did in another run: a stronger model's answers, or a bot's that plays there as a policy."""

    kind: Literal["run"]
    run: str = Field(min_length=1, max_length=4096, examples=["runs/teacher"])
    """Directory of that run. Its verified sequences are taken as they are when this run begins."""
    policy: str | None = Field(default=None, pattern=r"^[a-z][a-z0-9_-]{0,31}(@\d{1,9})?$", examples=["main@12"])
    """Only what this policy did, or this version of it. Default: everybody's."""
    min_reward: float | None = None
    """Only sequences that got at least this. Default: all."""
    limit: int | None = Field(default=None, gt=0)
    """The newest so many."""


class BotGamesConfig(Model):
    """Games that fixed players play when the run begins, as the run's own games."""

    kind: Literal["bots"]
    games: int = Field(default=1000, gt=0, le=10**6)
    """How many games."""
    players: tuple[str, ...] = Field(default=("random",), strict=False, min_length=1)
    """Players, drawn for each seat of each game."""
    min_reward: float | None = None
    """Learn only from seats that got at least this. Default: from all."""


class PathAlone:
    """Lets a path stand for the whole mapping, and a mapping with a path do without its kind."""

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        file = handler.resolve_ref_schema(schema["oneOf"][0] if "oneOf" in schema else schema)
        text = {"type": "string", "description": "a file, folder or id, as it is"}
        return {"anyOf": [text, {**file, "required": ["path"]}, schema]}


def _as_file(value: Any) -> Any:
    if isinstance(value, str):
        return {"kind": "file", "path": value}
    return {"kind": "file", **value} if isinstance(value, dict) and "path" in value else value


ExpertSource = Annotated[
    RowFileConfig | RunEpisodesConfig | BotGamesConfig,
    Field(discriminator="kind"),
    BeforeValidator(_as_file),
    PathAlone(),
]
PairSource = Annotated[RowFileConfig, BeforeValidator(_as_file), PathAlone()]


class ExpertConfig(Model):
    """Demonstrations: rows of the source `expert`, for terms such as `{loss: sft, source: expert}`.

    Every row is in one batch of each epoch; the order is another in every epoch.
    """

    sources: tuple[ExpertSource, ...] = Field(strict=False, min_length=1)
    """Where they come from. A path alone stands for a file."""
    rows: int | None = Field(default=None, gt=0)
    """Expert sequences in each batch. Default: as many as `train.batch_episodes`."""


class PairsConfig(Model):
    """Preferences: pairs of answers to one prompt, of the source `pairs`, for the loss `dpo`."""

    sources: tuple[PairSource, ...] = Field(strict=False, min_length=1)
    """Where they come from. A path alone stands for a file."""
    pairs: int | None = Field(default=None, gt=0)
    """Pairs in each batch. Default: as many as `train.batch_episodes`."""


class LoaderConfig(Model):
    """A source that the trainer pulls from inside its own process; no row goes through the loop."""

    kind: str = Field(pattern=r"^[a-z][a-z0-9_]{0,31}$", examples=["csv"])
    """`chess_chunks`, or the name under which a plugin registered one (`ludus.register_loader`)."""
    options: dict[str, Any] = Field(default={})
    """What it is made with. In a text, {run} stands for the run's directory."""
    command: tuple[str, ...] = Field(
        default=(), strict=False, examples=[["ludus", "chess", "play-engine", "stockfish", "--out", "{run}/chunks"]]
    )
    """A program that writes what the loader reads, and its arguments; not a shell. It starts and ends with the run, and
    is started again when it fails. `ludus` is the one that runs; {run} stands for the run's directory."""

    def of_run(self, path: str) -> LoaderConfig:
        """As it is for the run in this directory."""
        options = {
            key: value.replace(RUN, path) if isinstance(value, str) else value for key, value in self.options.items()
        }
        return self.model_copy(
            update={"options": options, "command": tuple(word.replace(RUN, path) for word in self.command)}
        )


class RunFeedConfig(TextOrMapping):
    """Another run, whose new rows are read as soon as they are in its log. Its directory may stand for the whole."""

    shorthand: ClassVar[str] = "the directory of a run"
    shorthand_key: ClassVar[str] = "run"

    kind: Literal["run"] = "run"
    """The only kind: another run."""
    run: str = Field(min_length=1, max_length=4096, examples=["runs/explorer"])
    """Directory of that run. It need not be there yet, and may be alive; it is only read."""


class BufferConfig(Model):
    """The sliding window between explorers and trainer (split topology), and what is learnt from beside it."""

    expert: ExpertConfig | None = None
    """Demonstrations, for terms with `source: expert`."""
    pairs: PairsConfig | None = None
    """Preference pairs, for terms with `source: pairs`."""
    feeds: tuple[RunFeedConfig, ...] = Field(default=(), strict=False, max_length=1000)
    """Mode train: other runs whose sequences are read while those runs play. A directory alone stands for a run."""
    loader: LoaderConfig | None = None
    """Mode train: rows that the trainer reads itself, instead of rollouts, experts and pairs."""
    capacity: int | None = Field(default=None, gt=0)
    """Sequences kept; the oldest make room. Default: 8 batches, and with `cycle` at least 4 times its
    `new_sequences`."""
    reuse: int = Field(default=1, gt=0)
    """How often a sequence may be trained on."""
    sampler: Literal["uniform", "fifo", "least_used", "least_used_newest", "prioritised"] = "fifo"
    """Which sequences make a batch: any; the oldest; the least used, of those the oldest or the newest; or drawn by
    `priority`."""
    priority: Literal["newest", "surprise"] = "newest"
    """`prioritised` only. `newest`: every use and every version behind makes a sequence half as important. `surprise`:
    also, the further its reward is from the mean of its group the more important it is."""
    priority_exponent: float = Field(default=0.6, ge=0, le=1)
    """`prioritised` only: 0 is uniform."""
    cooldown: int = Field(default=0, ge=0)
    """Batches that a sequence sits out after it was trained on, before it may be used again."""
    min_size: int | None = Field(default=None, gt=0)
    """Sequences needed before the first batch. Default: one batch."""
    samples_per_insert: float | None = Field(default=None, gt=0)
    """Sequences trained per sequence inserted, at most; explorers and trainer wait for each other to keep it.
    Default: `reuse`."""


_REPLAY = "capacity min_size samples_per_insert reuse cooldown sampler priority priority_exponent"


def check_buffer(config: RunConfig) -> Iterator[Contradiction]:
    """Sizes that fit each other, feeds of a run that only trains, and keys that another key turns off."""
    buffer = config.buffer
    if buffer.loader is not None:
        yield from _loader(config)
    if buffer.feeds:
        yield from _feeds(config)
    if config.topology == "fused":
        yield from no_effect(buffer, "buffer", _REPLAY, "there is no buffer in topology: fused")
        return
    if config.schedule == "sync" and config.mode == "both":
        why = "schedule: sync trains once on the episodes just played; write schedule: async"
        yield from no_effect(buffer, "buffer", "reuse cooldown sampler", why)
    if buffer.sampler != "prioritised":
        why = f"buffer.sampler is {buffer.sampler}; write sampler: prioritised"
        yield from no_effect(buffer, "buffer", "priority priority_exponent", why)
    if config.topology == "split":
        yield from _amounts(config)


def _feeds(config: RunConfig) -> Iterator[Contradiction]:
    if config.mode != "train":
        yield at(
            "buffer.feeds", f"are for mode: train, and mode is {config.mode}; write mode: train, or leave them out"
        )
    if "on_policy" not in wanted_sources(config.train.algorithm):
        yield at("buffer.feeds", "has no effect: nothing in train.algorithm learns from play; leave them out")
    yield from repeated(("buffer", "feeds"), [feed.run.rstrip("/") for feed in config.buffer.feeds])
    if config.experience.operators:
        text = "has no effect: sequences of buffer.feeds come as their own run verified them"
        yield at("experience.operators", f"{text}; write it in the config of that run")


def _loader(config: RunConfig) -> Iterator[Contradiction]:
    if config.mode != "train" or config.topology != "split":
        yield at("buffer.loader", "is read by a trainer that gets no rollouts; write mode: train and topology: split")
    for key in ("expert", "pairs", "feeds"):
        if getattr(config.buffer, key):
            yield at(f"buffer.{key}", "has no effect: the trainer pulls every batch from buffer.loader; leave out one")


def _amounts(config: RunConfig) -> Iterator[Contradiction]:
    seats = seats_per_game(config)
    buffer, episodes, staleness = config.buffer, config.train.batch_episodes or 1, config.train.max_staleness
    capacity, min_size = buffer.capacity or 0, buffer.min_size or 0
    if capacity < episodes * seats:
        text = f"{capacity} sequences are less than one batch (train.batch_episodes: {episodes}, {seats} seats each)"
        yield at("buffer.capacity", f"{text}; write at least {episodes * seats}")
    if min_size > capacity:
        yield at("buffer.min_size", f"{min_size} is more than buffer.capacity ({capacity}); write at most that")
    if buffer.samples_per_insert is not None and buffer.samples_per_insert > buffer.reuse:
        text = f"{buffer.samples_per_insert} cannot be reached with buffer.reuse: {buffer.reuse}"
        yield at("buffer.samples_per_insert", f"{text}; write at most {buffer.reuse}, or a higher reuse")
    if config.schedule == "async":
        updates = (staleness + 1) * config.publish_interval
        if min_size > updates * episodes:
            text = f"only {updates * episodes} episodes are played before the first update"
            yield at("buffer.min_size", f"{text} (train.max_staleness: {staleness}); write at most that")
        if buffer.reuse > updates:
            versions = (buffer.reuse - 1) // config.publish_interval
            text = f"{buffer.reuse} uses need experience {versions} versions old"
            yield at("buffer.reuse", f"{text}, but train.max_staleness is {staleness}; write at least that there")
