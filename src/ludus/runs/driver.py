"""How a program drives a run: start, pause, resume, checkpoint, stop, wait and status, from any thread.

The work itself happens in one thread of its own (`_work`, given by the subclass), which looks at what was asked for
between two updates.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ludus.errors import ConfigError, LudusError
from ludus.runs.controls import Activity, Controls
from ludus.telemetry import RoomReading, SinkStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleStatus:
    """Where a run is in its rounds of waiting and training. Without `cycle` the whole run is one round."""

    cycles: int = 0
    """Rounds that are done."""
    new_data: int = 0
    """Sequences that have come in since the last round began to train."""
    data_to_wait: int = 0
    """Sequences that the next round waits for; 0 where nothing is waited for."""
    updates: int = 0
    """Updates done in this round."""
    updates_to_do: int = 0
    """Updates of a round; 0 where there are no rounds."""
    training_s: float = 0.0
    """Seconds that were trained in this round."""
    previous_training_s: float = 0.0
    cycle_s: float = 0.0
    """Seconds since this round began, its waiting included."""
    previous_cycle_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What a run is doing, at one moment."""

    stage: Activity
    run: str
    run_dir: str
    stage_name: str = ""
    """Of a run in stages: which of them this is about. (`stage` is what is being done in it.)"""
    stage_number: int = 0
    """Counted from 1; 0 where there are no stages."""
    stage_count: int = 0
    update: int = 0
    steps: int = 0
    total_steps: int = 0
    episodes: int = 0
    version: int = 0
    elapsed_s: float = 0.0
    error: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    """The newest value of every metric."""

    @property
    def is_over(self) -> bool:
        """Whether the run will do nothing more."""
        return self.stage in ("done", "stopped", "failed")


class Driveable(ABC):
    """The controls of a run. Subclasses do the work."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self.controls = Controls()
        self._error: BaseException | None = None
        self._began = time.monotonic()

    @abstractmethod
    def status(self) -> Status:
        """What the run is doing now."""

    def sinks(self) -> tuple[SinkStatus, ...]:
        """Where metrics go besides the run's own files, and what was lost on the way."""
        return ()

    def room_readings(self) -> dict[str, RoomReading]:
        """What each room of the loop has done since this start; nothing before the rooms are open."""
        return {}

    @abstractmethod
    def _work(self) -> None:
        """Do the run, looking at the controls between updates."""

    def start(self) -> Status:
        """Begin (or resume) the run in the background."""
        if self._thread is not None:
            raise LudusError("this run has been started already")
        self._thread = threading.Thread(target=self._main, name="loop", daemon=True)
        self._thread.start()
        return self.status()

    def pause(self) -> Status:
        """Stop training after the current update, keeping everything in memory."""
        return self._ask(paused=True)

    def resume(self) -> Status:
        """Continue after a pause."""
        return self._ask(paused=False)

    def schedule(self) -> CycleStatus:
        """Where the run is in its rounds of waiting and training."""
        return CycleStatus(cycle_s=time.monotonic() - self._began)

    def train_now(self) -> Status:
        """Do not wait any longer for the data of this round: train on what is there. Elsewhere this does nothing."""
        self.controls.hurry(True)
        return self.status()

    def checkpoint(self, timeout_s: float = 60.0) -> Status:
        """Save the state after the current update; returns when it is on disk."""
        self._ask(checkpoint=True)
        if not self.controls.wait_for_checkpoint(timeout_s):
            raise LudusError(f"no checkpoint within {timeout_s:g} s: the run is {self.controls.activity}")
        return self.status()

    def stop(self) -> Status:
        """Finish the current update, save the state and end. Returns at once; `wait` tells when it is done."""
        return self._ask(stopping=True)

    def set_keys(self, values: Mapping[str, Any]) -> None:
        """Change keys of the config of a live run, from the next update on.

        Raises:
            ConfigError: a key may not be set now, or a value is not one that it can have.
        """
        raise ConfigError(f"{', '.join(values)}: nothing can be set in this kind of run while it is going")

    def wait(self, timeout_s: float | None = None) -> Status:
        """Wait for the end, or for `timeout_s`; raises what made the run fail."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        if self._error is not None:
            raise self._error
        return self.status()

    def run_to_end(self) -> Status:
        """Start and wait."""
        self.start()
        return self.wait()

    @property
    def is_stopping(self) -> bool:
        """Whether somebody has asked for the end."""
        return self.controls.is_stopping

    def _ask(self, *, paused: bool | None = None, stopping: bool = False, checkpoint: bool = False) -> Status:
        self.controls.ask(paused=paused, stopping=stopping, checkpoint=checkpoint)
        return self.status()

    @property
    def _failure(self) -> str:
        return "" if self._error is None else f"{type(self._error).__name__}: {self._error}"

    def _main(self) -> None:
        try:
            self._work()
            self.controls.enter("stopped" if self.is_stopping else "done")
        except BaseException as error:
            # Whoever drives the run gets it from wait(); nothing may end silently here.
            self._error = error
            self.controls.enter("failed")
