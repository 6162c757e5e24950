"""What is asked of a run, and what it is doing: shared by the thread that works and those that drive it."""

from __future__ import annotations

import threading
from typing import Any, Literal

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
