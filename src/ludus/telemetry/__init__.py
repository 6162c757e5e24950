"""Metrics and events, and where they go."""

from ludus.telemetry.room_meters import ROOMS, Fill, RoomMeters, RoomReading, added_up
from ludus.telemetry.telemetry import Sink, SinkStatus, Telemetry
from ludus.telemetry.tensorboard import TensorBoardSink

__all__ = [
    "ROOMS",
    "Fill",
    "RoomMeters",
    "RoomReading",
    "Sink",
    "SinkStatus",
    "Telemetry",
    "TensorBoardSink",
    "added_up",
]
