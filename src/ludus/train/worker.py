"""A trainer process: updates a policy on the batches it is sent.

Started by the supervisor. It keeps nothing that a checkpoint does not hold, so a lost
trainer is replaced by one that loads the newest checkpoint.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ludus.config import RunConfig
from ludus.errors import TrainError
from ludus.lm.node_models import shape_here, teacher_here
from ludus.plugins import load_plugins
from ludus.policies.store import PolicyStore
from ludus.records import Experiences, PolicyRef
from ludus.runtime import Channel, NodeFiles, Pulse, Stop, run_worker
from ludus.storage.arrow import experiences_from_table, from_bytes
from ludus.storage.atomic import read_json, write_json
from ludus.storage.run_directory import RunDirectory
from ludus.train.learners import FolderLearner, ProbingLearner, ValidatingLearner, begun_with, make_learner
from ludus.train.loaders import (
    Loader,
    RoundLoader,
    Tensors,
    ValidatingLoader,
    check_rows,
    make_loader,
    refuse_other_than_rows,
    report_on,
)
from ludus.train.meeting import Meeting, Peers
from ludus.train.messages import (
    LOADER,
    LoaderReport,
    MeetingPlace,
    Saved,
    SaveInto,
    ToTrainer,
    Trained,
    TrainerBroken,
    TrainerSetup,
    TrainOn,
)
from ludus.train.state_folders import read_state, write_state
from ludus.train.tracing import make_tracer

REPORT_S = 0.5
"""Seconds between two reports on the loader."""


class Trainer:
    """A learner and its state, driven by messages. What its loader is doing, it tells by `tell`."""

    def __init__(
        self, setup: TrainerSetup, pulse: Pulse, files: NodeFiles, tell: Callable[[LoaderReport | MeetingPlace], None]
    ) -> None:
        load_plugins([str(files.outside(path)) for path in setup.plugins])
        config = RunConfig.model_validate_json(setup.config)
        self._pulse, self._tell, self._thread = pulse, tell, threading.get_ident()
        self._update, self._reported = setup.update, 0.0
        self.has_reports = False
        """Whether the loader tells anything of itself."""
        self._loader: Loader | None = None
        self._loader = make_loader(config, self._wait)
        self._shape = shape_here(setup.shape, files)
        self._files = files
        teacher = teacher_here(setup.teacher, files)
        peers = _meet(config, pulse, tell) if setup.meets else None
        self._learner = make_learner(config, self._shape, teacher=teacher, scratch=self._folder, peers=peers)
        self._tracer = make_tracer(self._learner, config.record.traces)
        self._state: Any = self._learner.init(config.seed)
        if setup.checkpoint:
            folder = self._folder / setup.checkpoint
            files.fetch(folder)
            self._state = read_state(self._learner, folder, setup.checkpoint)
            if self._loader is not None and (folder / LOADER).is_file():
                self._loader.load_state(read_json(folder / LOADER))
        elif setup.start:
            store = PolicyStore(files.outside(setup.start), files)
            self._state = self._begin_with(store, PolicyRef.parse(setup.start_policy))

    @property
    def _folder(self) -> Path:
        """Where states are."""
        return RunDirectory(self._files.run).checkpoints

    def _begin_with(self, store: PolicyStore, ref: PolicyRef) -> Any:
        """Another run's weights with a fresh optimizer; what it has no weights for, such as a critic, is fresh too."""
        if isinstance(self._learner, FolderLearner):
            return self._learner.begin_with(self._state, store.tensor_paths(ref))
        policy = store.load(ref)
        tensors = self._learner.state_tensors(self._state)
        return self._learner.state_from_tensors(begun_with(tensors, policy.weights))

    def train(self, order: TrainOn, batch: memoryview) -> Trained:
        """One update; the new state is written before this returns."""
        started = time.perf_counter()
        rows = self._pull(order.admits) if order.is_pulled else experiences_from_table(from_bytes(batch))
        steps, episodes = _amounts(rows)
        if self._tracer is not None:
            self._tracer.begin(order.seed)
        self._state, metrics = self._learner.train_batch(self._state, rows, seed=order.seed, progress=order.progress)
        seconds = time.perf_counter() - started
        if order.staging:
            self.save(order.staging)
        self._update = order.update
        if order.validates:
            metrics = {**metrics, **self._validate()}
        return Trained(
            update=order.update,
            staging=order.staging,
            metrics=metrics,
            seconds=seconds,
            steps=steps,
            episodes=episodes,
            probe=self.probe(),
        )

    def probe(self) -> dict[str, Any]:
        """What the weights think of the probe, where there is an inference server to be compared with them."""
        return self._learner.probe(self._state) if isinstance(self._learner, ProbingLearner) else {}

    def traces(self) -> bytes:
        """A few sequences of the update that is done, as it began with them (`storage.traces`)."""
        return b"" if self._tracer is None else self._tracer.end()

    def report(self) -> None:
        """Tell what the loader is doing, unless that was a moment ago."""
        if self._loader is None or time.monotonic() - self._reported < REPORT_S:
            return
        report = report_on(self._loader, update=self._update)
        self._reported, self.has_reports = time.monotonic(), report is not None
        if report is not None:
            self._tell(report)

    def _wait(self) -> None:
        """Called by the loader while it waits for data."""
        self._pulse.tick()
        if threading.get_ident() == self._thread:
            self.report()

    def _validate(self) -> dict[str, float]:
        """How the policy does on rows that it is not trained on, where there are any."""
        if not isinstance(self._loader, ValidatingLoader) or not isinstance(self._learner, ValidatingLearner):
            return {}
        rows = self._loader.held_out()
        if rows is None:
            return {}
        found = {**self._learner.validate(self._state, rows), "rows": float(len(rows[0]))}
        return {f"validation/{name}": value for name, value in found.items()}

    def _pull(self, admits: int) -> Experiences | Tensors:
        if self._loader is None:
            raise TrainError("the trainer was asked to pull rows, and buffer.loader names no loader")
        if admits and isinstance(self._loader, RoundLoader):
            self._loader.admit(admits)
        rows = self._loader.next()
        refuse_other_than_rows(rows)
        if not _amounts(rows)[1]:
            raise TrainError("the loader gave a batch without rows; next() must block until there are some")
        if isinstance(rows, Experiences):
            check_rows(rows, self._shape)
        return rows

    def close(self) -> None:
        """End the loader."""
        if self._loader is not None:
            self._loader.close()

    def save(self, name: str, *, only_weights: bool = False) -> None:
        """Write the state into an empty folder, which becomes a checkpoint whole."""
        with self._files.writing(self._folder / name) as staging:
            write_state(self._learner, self._state, staging, name, only_weights=only_weights)
            if self._loader is not None:
                write_json(staging / LOADER, self._loader.state())


def _meet(config: RunConfig, pulse: Pulse, tell: Callable[[MeetingPlace], None]) -> Peers:
    """Say where this trainer waits, and wait for the others."""
    interface = config.runtime.interface
    meeting = Meeting(interface)
    tell(meeting.place)
    return Peers(meeting.await_all(config.train.trainers, pulse.tick), interface=interface)


def _amounts(rows: Experiences | Tensors) -> tuple[int, int]:
    """Steps and sequences; a row of tensors is one of each."""
    if isinstance(rows, Experiences):
        return int(rows.steps["mask"].sum()) if len(rows) else 0, len(rows)
    return len(rows[0]), len(rows[0])


def serve(channel: Channel[object], pulse: Pulse, files: NodeFiles) -> None:
    """Train until told to stop."""
    trainer: Trainer | None = None
    while True:
        pulse.set_busy(False)
        for message, blob in channel.wait(REPORT_S if trainer is not None and trainer.has_reports else None):
            pulse.set_busy(True)
            pulse.tick()
            if isinstance(message, Stop):
                if trainer is not None:
                    trainer.close()
                return
            if isinstance(message, TrainerSetup):
                trainer = Trainer(message, pulse, files, channel.send)
            elif isinstance(message, TrainOn) and trainer is not None:
                channel.send(trainer.train(message, blob), trainer.traces())
            elif isinstance(message, SaveInto) and trainer is not None:
                trainer.save(message.staging, only_weights=message.only_weights)
                channel.send(Saved(staging=message.staging, probe=trainer.probe()))
        if trainer is not None:
            trainer.report()


def main() -> None:
    """Entry point of the process."""
    run_worker(ToTrainer, serve, lambda error: TrainerBroken(error=error))


if __name__ == "__main__":
    main()
