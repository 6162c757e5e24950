"""Metrics and events, and where they go."""

from ludus.telemetry.telemetry import Sink, Telemetry
from ludus.telemetry.tensorboard import TensorBoardSink

__all__ = ["Sink", "Telemetry", "TensorBoardSink"]
