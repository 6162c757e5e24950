"""Metrics and events, and where they go."""

from ludus.telemetry.room_meters import ROOMS, Fill, RoomMeters, RoomReading, added_up
from ludus.telemetry.sinks import Abandonable, LinesLost, Sink, SinkStatus, name_of
from ludus.telemetry.telemetry import Telemetry, attach_trackers, check_trackers
from ludus.telemetry.tensorboard import TensorBoardSink
from ludus.telemetry.wandb_sink import WandbSink

__all__ = [
    "ROOMS",
    "Abandonable",
    "Fill",
    "LinesLost",
    "RoomMeters",
    "RoomReading",
    "Sink",
    "SinkStatus",
    "Telemetry",
    "TensorBoardSink",
    "WandbSink",
    "added_up",
    "attach_trackers",
    "check_trackers",
    "name_of",
]
