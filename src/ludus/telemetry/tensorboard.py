"""Metrics as TensorBoard scalars under `tensorboard/`; open with `tensorboard --logdir runs`.

Invariant: every record in the file is whole. A line that finds the disk full is lost and counted; the next that fits
follows the last whole one. Each start of a run writes a file of its own, as TensorBoard expects.
"""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ludus.storage.append_file import AppendFile
from ludus.storage.atomic import ensure_directory
from ludus.storage.filesystem import REAL, FileSystem
from ludus.telemetry.event_records import scalars_record, version_record

_LARGEST = 3.4028234663852886e38
"""Of a scalar in an event file; what is larger has no place on a curve either."""


class TensorBoardSink:
    """Writes scalars, without TensorFlow."""

    name = "tensorboard"

    def __init__(self, directory: Path, *, fs: FileSystem = REAL) -> None:
        """A new event file in `directory`, from the first line on."""
        now = time.time()
        file = f"events.out.tfevents.{int(now)}.{socket.gethostname()}.{os.getpid()}.{time.monotonic_ns()}"
        self._directory = directory
        self._fs = fs
        self._file = AppendFile(directory / file, start=version_record(now), fs=fs)

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Write the numbers at their step; what is not finite has no place on a curve."""
        finite = {name: value for name, value in values.items() if math.isfinite(value) and abs(value) <= _LARGEST}
        ensure_directory(self._directory, fs=self._fs)
        self._file.append(scalars_record(time.time(), step, finite))

    def event(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Events are in `events.jsonl`; TensorBoard has no use for them."""

    def close(self) -> None:
        """Everything is in the file already."""
        self._file.close()
