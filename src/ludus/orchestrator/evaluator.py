"""Evaluation in a live run: jobs are handed to the explorers, waited for and counted into the league."""

from __future__ import annotations

from collections.abc import Callable

from ludus.orchestrator.evaluation import Evaluation
from ludus.orchestrator.explorers import Explorers
from ludus.orchestrator.workers import POLL_S, Workers
from ludus.records import PolicyRef
from ludus.telemetry import Telemetry


class Evaluator:
    """Issues evaluations and settles them at the points in time that the loop chooses."""

    def __init__(self, evaluation: Evaluation, explorers: Explorers, workers: Workers, telemetry: Telemetry) -> None:
        self.evaluation = evaluation
        self._explorers = explorers
        self._workers = workers
        self._telemetry = telemetry

    @property
    def is_open(self) -> bool:
        """Whether a job has been issued and not settled."""
        return self.evaluation.job is not None

    def issue(self, learner: PolicyRef, step: int, *, is_final: bool = False) -> None:
        """Begin a job; its games are played after the next `submit`."""
        self.evaluation.issue(learner, step=step, is_final=is_final)

    def submit(self) -> None:
        """Hand out the games that nobody has been given yet: the policies in them are published."""
        self._explorers.submit(self.evaluation.pending_tasks())

    def settle(self, is_stopping: Callable[[], bool] = lambda: False) -> dict[str, float]:
        """Wait for the job in progress and count it into the league; returns its scores, or nothing when stopped.

        Between updates the wait is not cut short: skipping an evaluation would make the run another one.
        """
        with self._telemetry.room("evaluate"):
            while not self.evaluation.is_complete and not is_stopping():
                self._workers.serve(POLL_S)
        if not self.evaluation.is_complete:
            return {}
        measured = self.evaluation.job
        scores = self.evaluation.settle()
        self._telemetry.meters.add("league", 0 if measured is None else len(measured.played))
        if measured is not None and scores:
            self._telemetry.metrics(measured.step, scores)
        return scores
