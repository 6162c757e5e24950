"""What the loop and a trainer process say to each other. A batch travels beside `TrainOn` as Arrow bytes."""

from __future__ import annotations

from typing import Any

import msgspec

from ludus.runtime import Stop

LOADER = "loader.json"
"""The file beside a state's tensors that says where the trainer's loader is."""


class LoaderStage(msgspec.Struct, kw_only=True):
    """One stage of a loader, as a row of a dashboard."""

    name: str
    load: float = 0.0
    """Threads that were busy with it, on average since the last report."""
    length: int = 0
    """What waits in its queue,"""
    capacity: int = 0
    """and how much may."""
    counts: dict[str, int] = {}
    """What it has done since it was started, by name."""


class LoaderRefusal(msgspec.Struct, kw_only=True):
    """Data that a loader did not use, and why."""

    reason: str
    """One word."""
    detail: str = ""
    file: str = ""
    member: str = ""
    """Of an archive."""
    offset: int = 0
    """In bytes."""


class TrainerSetup(msgspec.Struct, tag="trainer_setup", kw_only=True):
    """First message to a trainer: everything it needs to know."""

    config: str
    """The resolved config as JSON."""
    shape: dict[str, Any]
    """The policy's shape as JSON."""
    checkpoint: str
    """Name of the checkpoint to go on from, or of a folder beside it; empty to begin with fresh weights."""
    start: str = ""
    """Another run's published policies, to begin with the weights of one of them."""
    start_policy: str = ""
    """Which of them."""
    teacher: dict[str, Any] = {}
    """The teacher as JSON; empty where there is none."""
    plugins: list[str] = []
    update: int = 0
    """Updates that the state was trained for."""
    meets: bool = False
    """Whether the other trainers are workers of their own, which are told where this one waits for them."""


class MeetingPlace(msgspec.Struct, tag="meeting_place", kw_only=True):
    """Where trainer 0 waits for the others."""

    host: str
    port: int
    token: str


class FollowTrainer(msgspec.Struct, tag="follow_trainer", kw_only=True):
    """First message to trainer 1, 2, ... where they are workers of their own."""

    rank: int
    place: MeetingPlace
    config: str
    """As in `TrainerSetup`."""
    shape: dict[str, Any]
    teacher: dict[str, Any] = {}
    plugins: list[str] = []


class TrainOn(msgspec.Struct, tag="train_on", kw_only=True):
    """Do one update on the batch in the blob."""

    update: int
    seed: int
    progress: float
    """Share of the run that is done: where the schedules are."""
    staging: str
    """Folder beside the checkpoints to write the new state into; empty: it is not written."""
    is_pulled: bool = False
    """Whether the rows come from the trainer's own loader; the blob is empty then."""
    validates: bool = False
    """Whether to measure the policy on held-out rows after the update."""
    admits: int = 0
    """New sequences that the loader admits before it is pulled: those of a round that begins here."""


class SaveInto(msgspec.Struct, tag="save_into", kw_only=True):
    """Write the current state into a folder beside the checkpoints."""

    staging: str
    only_weights: bool = False
    """Without the optimizer: for a version that is published."""


class Trained(msgspec.Struct, tag="trained", kw_only=True):
    """An update is done and its state is in the staging folder. Traces of it are in the blob."""

    update: int
    staging: str = ""
    """The folder, as it was ordered: an answer to an order that was given anew counts no more."""
    metrics: dict[str, float]
    seconds: float
    steps: int = 0
    """Elements that were trained on; told where the loop has not seen the rows."""
    episodes: int = 0
    probe: dict[str, Any] = {}
    """What the new weights think of the probe's tokens (`lm.probe`), where an engine is to be compared with it."""


class Saved(msgspec.Struct, tag="saved", kw_only=True):
    """The state is in the folder."""

    staging: str
    probe: dict[str, Any] = {}
    """As in `Trained`."""


class LoaderReport(msgspec.Struct, tag="loader_report", kw_only=True):
    """What the trainer's loader is doing; sent twice a second, between two updates and while the loader waits."""

    new_sequences: int
    """Sequences that have come in and are not admitted yet,"""
    update: int = 0
    """as of this update. Sequences that a later update admits are among them."""
    stages: list[LoaderStage] = []
    problem: str = ""
    """Why no data comes, or less than was expected; empty while all is well."""
    refusals: list[LoaderRefusal] = []
    """Since the report before."""
    unlisted: dict[str, int] = {}
    """By reason, refusals since then that came too fast to be listed."""


class TrainerBroken(msgspec.Struct, tag="trainer_broken", kw_only=True):
    """The trainer cannot go on, and why; it ends after this."""

    error: str


ToTrainer = TrainerSetup | TrainOn | SaveInto | Stop
FromTrainer = MeetingPlace | Trained | Saved | LoaderReport | TrainerBroken
