"""The trainer's worker and those that share its minibatches, where each of them is a worker of its own.

On one machine the trainer starts the others itself; on the nodes of a cluster the loop does, and tells them where the
trainer waits. Invariant: they are replaced together, so that all begin from the same state, and once, even if several
are lost at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ludus.config import RunConfig
from ludus.orchestrator.context import RunContext
from ludus.orchestrator.placement import TRAINER, other_trainers, trainer_needs, trainer_threads
from ludus.orchestrator.policy_start import keep_teacher
from ludus.orchestrator.workers import worker_imports
from ludus.runtime import Lost, WorkerSpec
from ludus.train.learners import local_devices
from ludus.train.messages import FollowTrainer, FromTrainer, MeetingPlace, TrainerSetup

NAME = TRAINER


class TrainerGroup:
    """Trainer 0, whom the loop gives batches, and the others, of whom there may be none."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self.others: list[str] = []
        """Their names, in the order of their ranks."""
        self._teacher: dict[str, Any] = {}

    def __contains__(self, worker: str) -> bool:
        return worker == NAME or worker in self.others

    def start(self) -> None:
        """Start them all."""
        config = self._context.config
        self.others = other_trainers(config)
        if teacher := keep_teacher(config, self._context.run):
            self._teacher = teacher.to_json()
        for name in (NAME, *self.others):
            self._start(name)

    def replace(self, lost: Lost) -> bool:
        """One was lost and is there anew: so are the others then. False if it went with another, and all are anew."""
        if self.others and any(
            now.name == lost.worker and now.starts != lost.starts for now in self._context.supervisor.read()
        ):
            return False
        for name in (NAME, *self.others):
            if name != lost.worker:
                self._context.supervisor.dismiss(name)
                self._start(name)
        return True

    def greet(self, checkpoint: Path | None, update: int) -> None:
        """Tell trainer 0 what it trains, from which state, and how many updates that is after."""
        context, start = self._context, self._context.start
        setup = TrainerSetup(
            config=self._config_of_run().model_dump_json(),
            shape=context.shape.to_json(),
            checkpoint=checkpoint.name if checkpoint is not None else "",
            start=str(start.run.policies) if start is not None else "",
            start_policy=str(start.policy) if start is not None else "",
            teacher=self._teacher,
            plugins=list(context.plugins),
            update=update,
            meets=bool(self.others),
        )
        context.supervisor.send(NAME, setup)

    def introduce(self, place: MeetingPlace) -> None:
        """Tell the others where trainer 0 waits for them."""
        context = self._context
        for rank, name in enumerate(self.others, start=1):
            order = FollowTrainer(
                rank=rank,
                place=place,
                config=context.config.model_dump_json(),
                shape=context.shape.to_json(),
                teacher=self._teacher,
                plugins=list(context.plugins),
            )
            context.supervisor.send(name, order)

    def _start(self, name: str) -> None:
        config, devices = self._context.config, local_devices(self._context.config)
        self._context.supervisor.start(
            WorkerSpec(
                name=name,
                module="ludus.train.rank_worker" if name in self.others else "ludus.train.worker",
                replies=FromTrainer,
                threads=trainer_threads(config),
                devices=devices,
                stall_s=config.runtime.stall_s,
                imports=worker_imports(config),
                needs_run_disk=config.buffer.loader is not None,
                needs=trainer_needs(config),
            )
        )

    def _config_of_run(self) -> RunConfig:
        """The config, with the run's directory in what its loader is made with."""
        config, path = self._context.config, str(self._context.run.path)
        if config.buffer.loader is None:
            return config
        buffer = config.buffer.model_copy(update={"loader": config.buffer.loader.of_run(path)})
        return config.model_copy(update={"buffer": buffer})
