"""Metrics as TensorBoard scalars under `tensorboard/`; open with `tensorboard --logdir runs`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class TensorBoardSink:
    """Writes scalars with tensorboardX, which needs no TensorFlow."""

    def __init__(self, directory: Path) -> None:
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(str(directory))

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Write each number at its step; what is not finite has no place on a curve."""
        for name, value in values.items():
            if math.isfinite(value):
                self._writer.add_scalar(name, value, step)

    def event(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Events are in `events.jsonl`; TensorBoard has no use for them."""

    def close(self) -> None:
        """Flush."""
        self._writer.close()
