"""How a program drives a run: start, pause, resume, checkpoint, stop, wait and status, from any thread.

The work itself happens in one thread of its own (`_work`, given by the subclass), which looks at what was asked for
between two updates.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ludus.config import RunConfig
from ludus.errors import ConfigError, LudusError, describe
from ludus.orchestrator.loader_watch import LoaderStatus
from ludus.plugins import load_plugins
from ludus.runtime import NodeReading, WorkerReading
from ludus.telemetry import RoomReading, Sink, SinkStatus

Activity = Literal[
    "starting",
    "warming up",
    "waiting for data",
    "training",
    "exporting",
    "paused",
    "evaluating",
    "stopping",
    "done",
    "stopped",
    "failed",
]
"""What a run is doing."""


class Controls:
    """Flags of one run. Any thread asks; the thread that works looks at them between two updates."""

    def __init__(self) -> None:
        self._wake = threading.Condition()
        self.is_paused = False
        self.is_stopping = False
        self.is_checkpoint_wanted = False
        self.is_hurried = False
        """Whether the round is to begin with the data that there is."""
        self.activity: Activity = "starting"

    @property
    def is_over(self) -> bool:
        """Whether the run will do nothing more."""
        return self.activity in ("done", "stopped", "failed")

    @property
    def shown(self) -> Activity:
        """What people are told: a stop shows at once, also while the last update is going on."""
        return "stopping" if self.is_stopping and not self.is_over else self.activity

    @property
    def is_held(self) -> bool:
        """Whether nothing is to be trained now."""
        return self.is_paused and not self.is_stopping

    def ask(self, *, paused: bool | None = None, stopping: bool = False, checkpoint: bool = False) -> None:
        """Ask for something; what was asked for before stays so."""
        with self._wake:
            self.is_paused = self.is_paused if paused is None else paused
            self.is_stopping = self.is_stopping or stopping
            self.is_checkpoint_wanted = self.is_checkpoint_wanted or checkpoint
            self._wake.notify_all()

    def hurry(self, is_hurried: bool) -> None:
        """Begin the round with the data that there is, or no longer so."""
        with self._wake:
            self.is_hurried = is_hurried
            self._wake.notify_all()

    def pass_on(self, other: Any) -> None:
        """Ask of another run what was asked of this one."""
        if self.is_stopping:
            other.stop()
        elif self.is_paused:
            other.pause()
        else:
            other.resume()

    def enter(self, activity: Activity) -> None:
        """The run does this from now on."""
        if self.activity != activity:
            with self._wake:
                self.activity = activity
                self._wake.notify_all()

    def checkpoint_done(self) -> None:
        """What was asked for is on disk."""
        with self._wake:
            self.is_checkpoint_wanted = False
            self._wake.notify_all()

    def wait_for_checkpoint(self, timeout_s: float) -> bool:
        """Wait until the checkpoint that was asked for is on disk, or the run is over; returns whether it is."""
        with self._wake:
            self._wake.wait_for(lambda: not self.is_checkpoint_wanted or self.is_over, timeout_s)
            return not self.is_checkpoint_wanted

    def wait_while_held(self) -> None:
        """Wait for the end of a pause."""
        with self._wake:
            self._wake.wait_for(lambda: not self.is_held)


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
    """0 where the run's length is not given in steps."""
    share_done: float = 0.0
    """Share of the run that is done, by whichever of steps, updates and hours is nearest to its end."""
    length: str = ""
    """How far it is in updates and hours, where its length is given in those: `update 3/10`."""
    episodes: int = 0
    version: int = 0
    elapsed_s: float = 0.0
    error: str = ""
    evaluating: str = ""
    """The evaluation in progress, such as `main@3: 12 of 80`; it may keep explorers busy that training waits for."""
    silent_workers: tuple[str, ...] = ()
    """Worker processes that give no sign of life: stopped, or frozen."""
    workers: tuple[WorkerReading, ...] = ()
    """All worker processes."""
    nodes: tuple[NodeReading, ...] = ()
    """The nodes of the Ray cluster, where there is one."""
    loader: LoaderStatus | None = None
    """What the trainer's loader is doing (`buffer.loader`), where it tells."""
    metrics: dict[str, float] = field(default_factory=dict)
    """The newest value of every metric."""

    @property
    def is_over(self) -> bool:
        """Whether the run will do nothing more."""
        return self.stage in ("done", "stopped", "failed")


class Driveable(ABC):
    """A run of a config on a directory, and its controls: `run_to_end()`, or `start()` and drive it."""

    def __init__(
        self,
        config: RunConfig,
        run_dir: Path | str | None = None,
        *,
        plugins: Sequence[str] = (),
        strict_resume: bool = False,
        from_scratch: bool = False,
        sinks: Sequence[Sink] = (),
    ) -> None:
        """Check everything that the config names; nothing is written. The directory's default is `runs/<name>`.

        `from_scratch`: a run that is there is moved to `earlier/<n>` below it when this one starts.
        """
        self._thread: threading.Thread | None = None
        self.controls = Controls()
        self._error: BaseException | None = None
        self._began = time.monotonic()
        load_plugins(plugins)
        self._plugins, self._strict_resume = tuple(str(plugin) for plugin in plugins), strict_resume
        self._sinks, self._from_scratch = tuple(sinks), from_scratch
        self._check(config, Path(run_dir) if run_dir is not None else config.home)

    @abstractmethod
    def _check(self, config: RunConfig, path: Path) -> None:
        """Check the config, and that what it names exists and fits; the run is to live at `path`."""

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
        return "" if self._error is None else describe(self._error)

    def _main(self) -> None:
        try:
            self._work()
            self.controls.enter("stopped" if self.is_stopping else "done")
        except BaseException as error:
            # Whoever drives the run gets it from wait(); nothing may end silently here.
            self._error = error
            self.controls.enter("failed")
