"""Frozen records that cross rooms. They carry data, not behaviour."""

from ludus.records.episode import Episode, EpisodeBatch
from ludus.records.experience import REQUIRED_STEP_COLUMNS, SEQUENCE_COLUMNS, Experiences, join, places
from ludus.records.ids import EpisodeId, PolicyName, PolicyRef, PolicyVersion, TaskId, derive_seed, episode_id
from ludus.records.task import Match, Purpose, Seat, Task

__all__ = [
    "REQUIRED_STEP_COLUMNS",
    "SEQUENCE_COLUMNS",
    "Episode",
    "EpisodeBatch",
    "EpisodeId",
    "Experiences",
    "Match",
    "PolicyName",
    "PolicyRef",
    "PolicyVersion",
    "Purpose",
    "Seat",
    "Task",
    "TaskId",
    "derive_seed",
    "episode_id",
    "join",
    "places",
]
