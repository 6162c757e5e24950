"""Every message of the protocol, in one registry: what a client may say (`requests`), and what it is told (`news`).

A message is one line of JSON, `{"type": T, "payload": {...}, "id": ...}`. Invariant: schema, docs page and readers are
made from `COMMANDS` and `NOTIFICATIONS`; a payload is a `CommandPayload` or `NewsPayload`, and is checked strictly.
"""

from __future__ import annotations

from ludus.daemon.news import (
    Activity,
    EpisodeNews,
    EventNews,
    Exported,
    Failure,
    LeagueMember,
    LeagueNews,
    LeelaSchedule,
    LeelaStatus,
    LoaderNews,
    LoaderStageStatus,
    LogLine,
    MatchNews,
    NewsPayload,
    PolicyPublished,
    ProgressNews,
    QueueFill,
    RoomStatus,
    Schedule,
    SinkStatus,
    Status,
    Warned,
)
from ludus.daemon.requests import (
    Ack,
    AskStatus,
    CommandPayload,
    ErrorCode,
    Export,
    MakeCheckpoint,
    Pause,
    Payload,
    Resume,
    Set,
    Shutdown,
    StartTraining,
    StartTrainingImmediately,
    Stop,
    Subscribe,
)

COMMANDS: dict[str, type[Payload]] = {kind.type: kind for kind in CommandPayload.__subclasses__()}
REPLIES: dict[str, type[Payload]] = {kind.type: kind for kind in (Ack, Failure)}
NOTIFICATIONS: dict[str, type[Payload]] = {kind.type: kind for kind in NewsPayload.__subclasses__()}

__all__ = [
    "COMMANDS",
    "NOTIFICATIONS",
    "REPLIES",
    "Ack",
    "Activity",
    "AskStatus",
    "CommandPayload",
    "EpisodeNews",
    "ErrorCode",
    "EventNews",
    "Export",
    "Exported",
    "Failure",
    "LeagueMember",
    "LeagueNews",
    "LeelaSchedule",
    "LeelaStatus",
    "LoaderNews",
    "LoaderStageStatus",
    "LogLine",
    "MakeCheckpoint",
    "MatchNews",
    "NewsPayload",
    "Pause",
    "Payload",
    "PolicyPublished",
    "ProgressNews",
    "QueueFill",
    "Resume",
    "RoomStatus",
    "Schedule",
    "Set",
    "Shutdown",
    "SinkStatus",
    "StartTraining",
    "StartTrainingImmediately",
    "Status",
    "Stop",
    "Subscribe",
    "Warned",
]
