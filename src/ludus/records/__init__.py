"""Frozen records that cross rooms. They carry data, not behaviour."""

from ludus.records.episode import Episode, EpisodeBatch, Turn
from ludus.records.experience import REQUIRED_STEP_COLUMNS, SEQUENCE_COLUMNS, STEP_COLUMNS, Experiences, places
from ludus.records.ids import EpisodeId, PolicyName, PolicyVersion, TaskId, derive_seed, episode_id
from ludus.records.joining import join
from ludus.records.match import Match
from ludus.records.policy import PolicyRef
from ludus.records.task import Purpose, Seat, Task

__all__ = [
    "REQUIRED_STEP_COLUMNS",
    "SEQUENCE_COLUMNS",
    "STEP_COLUMNS",
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
    "Turn",
    "derive_seed",
    "episode_id",
    "join",
    "places",
]
