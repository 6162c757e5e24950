"""Metrics and events, and where they go."""

from ludus.telemetry.sink import Abandonable, LinesLost, Sink, SinkStatus, name_of
from ludus.telemetry.telemetry import Telemetry
from ludus.telemetry.tensorboard import TensorBoardSink
from ludus.telemetry.trackers import attach_trackers, check_trackers
from ludus.telemetry.wandb_sink import WandbSink

__all__ = [
    "Abandonable",
    "LinesLost",
    "Sink",
    "SinkStatus",
    "Telemetry",
    "TensorBoardSink",
    "WandbSink",
    "attach_trackers",
    "check_trackers",
    "name_of",
]
