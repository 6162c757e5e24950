"""The run that clients drive, and what each command does to it. Called by the service's own threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from ludus.daemon import messages
from ludus.daemon.reports import Reporter, idle_status
from ludus.daemon.run_watch import News
from ludus.errors import LudusError
from ludus.policies import PolicyStore
from ludus.policies.export import export_policy
from ludus.policies.store import choose_policy
from ludus.runs.staged import AnyRun
from ludus.storage.checkpoints import CheckpointStore

CHECKPOINT_S = 300.0

Result = dict[str, Any]
Opener = Callable[[messages.StartTraining], AnyRun]


class Refused(LudusError):
    """A command that cannot be carried out now."""

    def __init__(self, code: Literal["wrong_state", "bad_payload"], message: str) -> None:
        super().__init__(message)
        self.code = code


def is_long(payload: messages.Payload) -> bool:
    """Whether others should not wait for it."""
    return isinstance(payload, messages.MakeCheckpoint | messages.Export | messages.Stop)


class HostedRun:
    """No run yet, one that is going on, or one that has ended."""

    def __init__(self, opener: Opener | None, loop: AnyRun | None) -> None:
        """`opener` makes a run of a config, where clients may start one; `loop` is one that is there already."""
        self._opener = opener
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._is_exporting = False
        self._reporter: Reporter | None = None
        self.loop: AnyRun | None = None
        self.news: News | None = None
        if loop is not None:
            self._adopt(loop)

    def status(self) -> messages.Status:
        """What the run is doing."""
        with self._lock:
            if self._reporter is None:
                return idle_status(time.monotonic() - self._began)
            return self._reporter.status(is_exporting=self._is_exporting)

    def wait(self) -> None:
        """Wait for the end of the run, however it ends: that is in its status."""
        if self.loop is not None:
            with suppress(BaseException):
                self.loop.wait()

    def carry_out(self, payload: messages.Payload) -> Result:
        """Do what a command asks for; returns what came of it.

        Raises:
            Refused: it cannot be done now.
        """
        match payload:
            case messages.StartTraining():
                return self._start(payload)
            case messages.Export():
                return self._export(payload)
            case messages.Stop():
                return self._stop()
            case messages.MakeCheckpoint():
                return self._checkpoint()
            case messages.Pause():
                self._live.pause()
            case messages.Resume():
                self._live.resume()
            case messages.StartTrainingImmediately():
                self._live.train_now()
            case messages.Set():
                self._live.set_keys(payload.values)
                return {"values": dict(payload.values)}
        return {}

    @property
    def _any(self) -> AnyRun:
        if self.loop is None:
            raise Refused("wrong_state", "there is no run yet; begin with start_training")
        return self.loop

    @property
    def _live(self) -> AnyRun:
        loop = self._any
        if loop.status().is_over:
            raise Refused("wrong_state", f"the run is {loop.status().stage}; begin again with start_training")
        return loop

    def _adopt(self, loop: AnyRun) -> None:
        with self._lock:
            self.loop, self._reporter, self.news = loop, Reporter(loop), News(loop)

    def _start(self, payload: messages.StartTraining) -> Result:
        if payload.config is None and payload.config_filepath is None:
            raise Refused("bad_payload", "payload.config: the path of a config is missing")
        if self._opener is None:
            raise Refused("wrong_state", "this process has its run; start another with: ludus run, or ludus daemon")
        if self.loop is not None and not self.loop.status().is_over:
            raise Refused("wrong_state", f"the run {self.loop.status().run} is going on; stop it first")
        loop = self._opener(payload)
        self._adopt(loop)
        status = loop.start()
        return {"run": status.run, "run_dir": status.run_dir}

    def _checkpoint(self) -> Result:
        loop = self._live
        status = loop.checkpoint(CHECKPOINT_S)
        saved = CheckpointStore(loop.run.checkpoints, loop.config.checkpoint.keep).list()
        newest = loop.run.checkpoints / f"{saved[-1]:08d}" if saved else loop.run.checkpoints
        return {"update": saved[-1] if saved else status.update, "steps": status.steps, "path": str(newest)}

    def _export(self, payload: messages.Export) -> Result:
        run, config = self._any.run, self._any.config
        self._is_exporting = True
        try:
            ref = choose_policy(run, config, payload.policy)
            target = Path(payload.out) if payload.out else run.path / "export" / f"{ref.name}-{ref.version:08d}"
            policy = export_policy(PolicyStore(run.policies), ref, target, replace=payload.force)
        finally:
            self._is_exporting = False
        return {"policy": str(ref), "path": str(target), "weights_hash": policy.weights_hash, "step": policy.step}

    def _stop(self) -> Result:
        if self.loop is None:
            raise Refused("wrong_state", "there is no run to stop")
        self.loop.stop()
        self.wait()
        status = self.status()
        return {"stage": status.stage, "update": status.update, "steps": status.steps, "run_dir": status.run_dir}
