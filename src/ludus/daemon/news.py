"""What a client of the daemon is told: the status of the run, its progress, its league, its troubles."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, PrivateAttr

from ludus.config import Model
from ludus.daemon.requests import ErrorCode, Payload

Activity = Literal[
    "IDLE",
    "STARTING",
    "WAITING FOR DATA",
    "TRAINING",
    "EVALUATING",
    "EXPORTING",
    "PAUSED",
    "STOPPING",
    "DONE",
    "STOPPED",
    "ERROR",
]
"""What a run is doing. IDLE: no config has been given yet. DONE and STOPPED: it will do nothing more."""


class NewsPayload(Payload):
    """What a client is told."""

    _at_s: float | None = PrivateAttr(default=None)

    @property
    def at_s(self) -> float | None:
        """When it happened (seconds of the epoch), of what was read from a run's files. Not sent."""
        return self._at_s

    def dated(self, at_s: float | None) -> Self:
        """The same, with its time."""
        self._at_s = at_s
        return self


class QueueFill(Model):
    """Something that fills and empties: a queue, a window, a pool of games."""

    name: str
    length: float
    capacity: float | None = None
    """null: it has no bound of its own."""


class RoomStatus(Model):
    """One room of the loop."""

    name: str
    """tasks, explore, experience, buffer, train, policies, league, evaluate or storage."""
    unit: str
    """What it counts: episodes, sequences, updates, ..."""
    rate: float
    """Units in the last second."""
    total: int
    """Units since the run was started."""
    dropped: int = 0
    """Units refused or lost since then."""
    load: float | None = None
    """Share of the last second in which the room was busy: 1 is all of it, of several workers their mean; of several
    learners at once it adds up. null: nobody measures it."""
    load_total: float | None = None
    """The same since the start."""
    queues: tuple[QueueFill, ...] = Field(default=(), strict=False)


class Schedule(Model):
    """The cycle of waiting, training and exporting. Without `cycle` in the config the whole run is one cycle."""

    cycles: int = 0
    """Cycles that are done."""
    new_data: int = 0
    """Sequences that have come in since the last cycle began."""
    data_to_wait: int = 0
    """Sequences that are waited for; 0 where nothing is waited for."""
    updates: int = 0
    """Updates done in this cycle."""
    updates_to_do: int = 0
    """Updates of a cycle; 0 where there are no cycles."""
    training_s: float = 0.0
    """Seconds that were trained in this cycle."""
    previous_training_s: float = 0.0
    cycle_s: float = 0.0
    """Seconds since this cycle began."""
    previous_cycle_s: float = 0.0


class SinkStatus(Model):
    """Where metrics go besides the run's own files."""

    name: str
    queued: int = 0
    dropped: int = 0
    """Lines that it could not take in time."""
    error: str = ""
    """Why it was switched off; empty while it works."""


class WorkerStatus(Model):
    """A worker process, on this machine or on a node."""

    name: str
    node: str = ""
    """Empty on the machine of the run."""
    load: float | None = None
    """CPU seconds a second over the last second; null: not known yet."""
    restarts: int = 0
    """How often it was started again."""
    is_silent: bool = False
    """Whether it gives no sign of life."""


class NodeStatus(Model):
    """A node of a Ray cluster."""

    name: str
    workers: int = 0
    """Of this run that are on it."""
    cpus: float = 0.0
    free_cpus: float = 0.0
    """CPUs that nobody has set aside."""
    gpus: float = 0.0
    free_gpus: float = 0.0
    load: float | None = None
    """Processes that run or wait to, for each core; null: no worker of this run tells."""


class LoaderStageStatus(Model):
    """One stage of the trainer's loader."""

    name: str
    load: float = 0.0
    """Threads that were busy with it, on average since the report before."""
    length: int = 0
    """What waits in its queue,"""
    capacity: int = 0
    """and how much may; 0: no bound."""
    counts: dict[str, int] = Field(default={})
    """What it has done since the trainer was started, by name."""


class LoaderNews(Model):
    """The trainer's loader (`buffer.loader`)."""

    problem: str = ""
    """Why no data comes, or less than was expected; empty while all is well."""
    stages: tuple[LoaderStageStatus, ...] = Field(default=(), strict=False)
    """In the order of the data."""
    refused: dict[str, int] = Field(default={})
    """Refusals by reason, over all starts of the run; `refused_chunks.jsonl` in its directory lists them."""


class Status(NewsPayload):
    """What the run is doing, at least once a second."""

    type: ClassVar[str] = "status"
    stage: Activity
    activity: str = ""
    """The same in finer words: starting, warming up, training, evaluating, ..."""
    run: str = ""
    run_dir: str = ""
    part: str = ""
    """Of a run in stages: which of them this is about, such as `2/3 mix`."""
    update: int = 0
    steps: int = 0
    total_steps: int = 0
    share_done: float = 0.0
    unit: str = "steps"
    """What `steps` counts: steps, or generations of a population."""
    episodes: int = 0
    version: int = 0
    """Newest version of the policy."""
    steps_per_s: float = 0.0
    """Over the last ten seconds."""
    eta_s: float | None = None
    """Seconds until the run is done at this rate; null: not known."""
    uptime_s: float = 0.0
    error: str = ""
    silent_workers: tuple[str, ...] = ()
    """Worker processes that give no sign of life: stopped, or frozen."""
    workers: tuple[WorkerStatus, ...] = Field(default=(), strict=False)
    """Worker processes, the first 256."""
    nodes: tuple[NodeStatus, ...] = Field(default=(), strict=False)
    """Nodes of the Ray cluster that the run works on, the first 200; empty on one machine."""
    schedule: Schedule = Schedule()
    rooms: tuple[RoomStatus, ...] = Field(default=(), strict=False)
    """In the order in which data flows through them."""
    loader: LoaderNews | None = None
    """What the trainer's loader is doing; null: the run has none that tells."""
    metrics: dict[str, float | None] = Field(default={})
    """The newest value of every metric; docs/metrics.md says what they mean. null: not a finite number."""
    sinks: tuple[SinkStatus, ...] = Field(default=(), strict=False)
    commands: tuple[str, ...] = Field(default=(), strict=False)
    """Commands that make sense now."""


class ProgressNews(NewsPayload):
    """A metric line was written."""

    type: ClassVar[str] = "progress"
    step: int
    metrics: dict[str, float | None]


class EpisodeNews(NewsPayload):
    """The newest recorded episode, as people read it; at most one a second."""

    type: ClassVar[str] = "episode"
    episode: str
    game: str
    task: int
    purpose: str
    """train or evaluate."""
    seats: tuple[str, ...] = Field(strict=False)
    """Who played, by seat."""
    rewards: tuple[float, ...] = Field(default=(), strict=False)
    plies: int = 0
    lines: tuple[str, ...] = Field(strict=False)
    """The moves, or what was said, and the last position; shortened where it is long."""
    error: str = ""


class MatchNews(NewsPayload):
    """Games that were rated since the last of these, by pair."""

    type: ClassVar[str] = "match"
    first: str
    second: str
    games: int
    score: float
    """What the first got of them, 0 to 1."""


class LeagueMember(Model):
    """A member with its Elo from one fit of all games (null where unknown), and TrueSkill for matchmaking."""

    name: str
    mu: float
    sigma: float
    games: int
    elo: float | None = None
    elo_error: float | None = None


class LeagueNews(NewsPayload):
    """The standing of the league, whenever it has changed: ladder, best first, and a table of all pairs."""

    type: ClassVar[str] = "league"
    members: tuple[LeagueMember, ...] = Field(strict=False)
    names: tuple[str, ...] = Field(default=(), strict=False)
    """Rows and columns of the two tables, numbered by their place among the members."""
    counts: tuple[Annotated[tuple[int, ...], Field(strict=False)], ...] = Field(default=(), strict=False)
    """Games of each pair."""
    scores: tuple[Annotated[tuple[float | None, ...], Field(strict=False)], ...] = Field(default=(), strict=False)
    """What the row got against the column, 0 to 1 (in a population: its payoff); null: they never met."""
    exploitability: float | None = None
    exploitability_kind: Annotated[str, Field(description="exact, or bound: what the newest best responses show.")] = ""


class PolicyPublished(NewsPayload):
    """A version of the policy is there."""

    type: ClassVar[str] = "policy_published"
    policy: str
    step: int = 0
    weights_hash: str = ""


class Exported(NewsPayload):
    """A policy has been written as files."""

    type: ClassVar[str] = "exported"
    policy: str
    path: str


class Warned(NewsPayload):
    """Something that a person should know of, and that the run survives."""

    type: ClassVar[str] = "warning"
    message: str


class Failure(NewsPayload):
    """As a reply: a command was not carried out, or a line was no message. Without an id: the run has failed."""

    type: ClassVar[str] = "error"
    code: ErrorCode
    """What kind of error it is, for programs."""
    message: str
    """What is wrong and what to do about it, for people."""
    command: str | None = None
    """Type of the command, as far as it could be read."""


class EventNews(NewsPayload):
    """Anything else that the run notes in `events.jsonl`."""

    type: ClassVar[str] = "event"
    event: str
    fields: dict[str, Any] = Field(default={})


class LogLine(NewsPayload):
    """A line that the run logged; a child's standard error is not repeated here, so only attached clients get these."""

    type: ClassVar[str] = "log"
    line: str


class LeelaSchedule(Model):
    """The Leela daemon's `training_schedule`."""

    current_stage: Literal["WAITING FOR DATA", "TRAINING"]
    completed_epochs_since_start: int
    new_chunks_since_training_start: int
    chunks_to_wait: int
    total_uptime_seconds: float
    current_training_time_seconds: float
    previous_training_time_seconds: float
    current_cycle_time_seconds: float
    previous_cycle_time_seconds: float


class LeelaStatus(NewsPayload):
    """The same as `status`, in the shape of the Leela daemon, for its client; rooms are its pipeline's stages."""

    type: ClassVar[str] = "training_status"
    dataloader_update_secs: float
    dataloader_1_second: dict[str, Any]
    dataloader_total: dict[str, Any]
    training_schedule: LeelaSchedule
