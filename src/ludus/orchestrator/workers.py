"""The worker processes of a run as one stream of events, each given to the parts that listen."""

from __future__ import annotations

from collections.abc import Callable

from ludus.runtime import Arrived, Lost, Stop, Supervisor

POLL_S = 0.05

Listener = Callable[[Arrived | Lost], None]


class Workers:
    """Serves worker events in the loop's thread. Nothing arrives between two calls of `serve`."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Give this listener every event from now on."""
        self._listeners.append(listener)

    def serve(self, timeout_s: float) -> None:
        """Take what the workers bring; wait at most `timeout_s` for it."""
        for event in self._supervisor.poll(timeout_s):
            for listener in self._listeners:
                listener(event)

    def wait_until(self, is_reached: Callable[[], bool], meanwhile: Callable[[], None] | None = None) -> None:
        """Serve the workers until something holds. Dead or hung workers are replaced, so this makes progress."""
        while not is_reached():
            self.serve(POLL_S)
            if meanwhile is not None:
                meanwhile()

    def close(self) -> None:
        """End all workers."""
        self._supervisor.stop(Stop(), grace_s=1.0)
