"""Evaluation beside training: jobs of games that are issued and counted at fixed steps, and reported once played.

Invariant: the league changes only when `settle` is called, with all games of a job at once and in task order. So what
training sees of the league does not depend on how fast evaluation games were played, and a run can be repeated. What a
job measured is reported when its last game is there, once: games that the log holds are not played again after a stop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from ludus.config import EvaluateConfig
from ludus.games.protocol import GameSpec
from ludus.league import Pool, evaluation_seats, rating_opponents
from ludus.orchestrator.absolute_measures import Measure
from ludus.orchestrator.evaluation_scores import is_sound, score_attempts, score_games
from ludus.orchestrator.workers import POLL_S, Workers
from ludus.records import Episode, Match, PolicyName, PolicyRef, Seat, Task
from ludus.storage.arrow import episodes_from_table
from ludus.storage.jsonl import read_jsonl
from ludus.storage.segments import SegmentLog
from ludus.tasks import EvaluationPlan, TaskStream, evaluation_task_id
from ludus.telemetry import Telemetry

if TYPE_CHECKING:
    from ludus.orchestrator.explorers import Explorers


@dataclass(slots=True, kw_only=True)
class Job:
    """One evaluation in progress."""

    number: int
    learner: PolicyRef
    opponents: tuple[PolicyRef, ...]
    games: int
    step: int
    is_final: bool = False
    tasks: dict[int, Task] = field(default_factory=dict)
    played: dict[int, Episode] = field(default_factory=dict)
    scores: dict[str, float] | None = None
    """What it measured, once every game has come back."""

    @property
    def is_complete(self) -> bool:
        """Whether every game has come back."""
        return len(self.played) == len(self.tasks)

    def in_order(self) -> list[Episode]:
        """What has come back, in task order."""
        return [self.played[number] for number in sorted(self.played)]

    def state(self) -> dict[str, Any]:
        """What is needed to issue the same job again."""
        return {
            "number": self.number,
            "learner": str(self.learner),
            "opponents": [str(ref) for ref in self.opponents],
            "games": self.games,
            "step": self.step,
            "is_final": self.is_final,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """What is measured on and not trained on."""

    specs: Mapping[str, GameSpec] = field(default_factory=dict)
    """Of the games, by key."""
    streams: tuple[TaskStream, ...] = ()
    """What makes tasks of kinds that the run's own stream does not make."""


class Evaluation:
    """Issues evaluation jobs, reports what they measured and settles them into the pool."""

    def __init__(
        self,
        config: EvaluateConfig,
        tasks: TaskStream,
        pool: Pool,
        specs: Mapping[str, GameSpec],
        report: Callable[[Job], None] = lambda job: None,
        measures: Sequence[Measure] = (),
        held_out: HeldOut = HeldOut(),  # noqa: B008 - frozen
    ) -> None:
        """`specs` are those of the games; whatever else comes back is an attempt at a task.

        `report` is called with each job as soon as its scores are there, with what `measures` add to them.
        """
        self._config = config
        self._tasks = tasks
        self._pool = pool
        self._specs = specs
        self._report = report
        self._measures = measures
        self._held_out = held_out
        self._issued = 0
        self._pending: list[Task] = []
        self._logged: dict[int, Episode] = {}
        self.job: Job | None = None

    @property
    def is_complete(self) -> bool:
        """Whether nothing is being waited for."""
        return self.job is None or self.job.is_complete

    @property
    def progress(self) -> str:
        """What is being measured and how far that is, such as `main@3: 12 of 80`; empty when nothing is."""
        job = self.job
        return "" if job is None or job.is_complete else f"{job.learner}: {len(job.played):,} of {len(job.tasks):,}"

    def participants(self) -> tuple[PolicyRef, ...]:
        """Who plays in the job in progress; their weights are still needed."""
        return () if self.job is None else (self.job.learner, *self.job.opponents)

    def pending_tasks(self) -> list[Task]:
        """Tasks that nobody has been given yet; each is returned once."""
        pending, self._pending = self._pending, []
        return pending

    def issue(self, learner: PolicyRef, *, step: int, is_final: bool) -> None:
        """Begin a job: `learner` against the fixed players and some past versions. The one before must be settled."""
        fixed = [PolicyRef(name=PolicyName(name)) for name in self._config.against]
        past = rating_opponents(self._pool, learner, self._config.pool_opponents) if self._specs else ()
        self.job = Job(
            number=self._issued,
            learner=learner,
            opponents=(*fixed, *past),
            games=self._config.final_games if is_final else self._config.games,
            step=step,
            is_final=is_final,
        )
        self._issued += 1
        self._make_tasks(self.job)

    def absorb(self, episodes: Iterable[Episode]) -> None:
        """Note evaluation games that came back; with the last of them the job is reported."""
        job = self.job
        if job is None or job.scores is not None:
            return
        job.played |= {episode.task.id: episode for episode in episodes if episode.task.id in job.tasks}
        if job.is_complete:
            job.scores = self._measure(job)
            self._report(job)

    def recall(self, log: SegmentLog) -> None:
        """After a resume: games of this and of later jobs that are in the log need not be played again."""
        first = evaluation_task_id(max(self._issued - 1, 0), 0)
        for _, table in log.scan():
            found = table.filter((pc.field("purpose") == "evaluate") & (pc.field("task") >= first))
            self._logged |= {episode.task.id: episode for episode in episodes_from_table(found)}
        self._take_logged()

    def settle(self) -> dict[str, float]:
        """Count a complete job into the pool, in task order; returns what it measured and the rating that follows."""
        if self.job is None:
            return {}
        job, self.job = self.job, None
        for episode in job.in_order():
            if episode.task.game in self._specs and is_sound(episode):
                seats = tuple(seat.policy for seat in episode.task.seats)
                self._pool.record(Match(id=episode.id, game=episode.task.game, seats=seats, returns=episode.returns))
        member, scores = self._pool.find(job.learner), job.scores or {}
        if member is None or not self._specs or not scores:
            return scores
        scores = scores | {"league/mu": member.rating.mu, "league/sigma": member.rating.sigma}
        if (elo := self._pool.elo(member)) is not None:
            scores |= {"league/elo": elo[0], "league/elo_error": elo[1]}
        return scores

    def _measure(self, job: Job) -> dict[str, float]:
        played = job.in_order()
        attempts = [episode for episode in played if episode.task.is_attempt]
        games = [episode for episode in played if not episode.task.is_attempt]
        scores = score_attempts(attempts, samples=self._config.samples, success=self._config.success)
        scores |= score_games(games, job.learner, self._specs, self._held_out.specs)
        for each in self._measures if scores else ():
            scores |= each.measure(job)
        return scores

    def state(self) -> dict[str, Any]:
        """For the checkpoint: the job in progress is issued again on resume."""
        return {"issued": self._issued, "job": None if self.job is None else self.job.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint; the tasks of the job that was in progress are pending again."""
        self._issued = int(state["issued"])
        self._pending, self.job = [], None
        if state["job"] is not None:
            job = dict(state["job"])
            job["learner"] = PolicyRef.parse(job["learner"])
            job["opponents"] = tuple(PolicyRef.parse(text) for text in job["opponents"])
            self.job = Job(**job)
            self._make_tasks(self.job)

    def _make_tasks(self, job: Job) -> None:
        attempts = tuple(Seat(policy=job.learner, greedy=greedy) for greedy in self._ways())
        line_ups, openings = self._lineups(job)
        samples = self._config.samples
        plan = EvaluationPlan(line_ups=line_ups, openings=openings, attempts=attempts, samples=samples)
        self._pending = []
        for stream in (self._tasks, *self._held_out.streams):
            self._pending += stream.evaluation(job.number, plan, first=len(self._pending))
        job.tasks = {task.id: task for task in self._pending}
        self._take_logged()

    def _take_logged(self) -> None:
        """Take what the log holds of the job: the same versions with the same seed play the same game."""
        if self.job is not None and self._logged:
            known = [self._logged[task.id] for task in self._pending if _is_of(self._logged.get(task.id), task)]
            ids = {episode.task.id for episode in known}
            self._pending = [task for task in self._pending if task.id not in ids]
            self.absorb(known)

    def _ways(self) -> tuple[bool, ...]:
        """How each task is attempted: greedily or not, or by default both. Several samples of a task must differ."""
        if self._config.samples > 1:
            return (False,)
        return (True, False) if self._config.greedy is None else (self._config.greedy,)

    def _lineups(self, job: Job) -> tuple[list[tuple[str, tuple[Seat, ...]]], dict[int, int]]:
        """Games and seats; and by place the openings, which held-out games with chance have in common.

        From each opening the learner plays every seat, and versions are compared by the same games.
        """
        lineups: list[tuple[str, tuple[Seat, ...]]] = []
        openings: dict[int, int] = {}
        specs = {**self._specs, **self._held_out.specs}
        for game, opponents, nodes in self._opponents(job):
            spec = specs[game]
            for opponent in (job.learner,) if spec.is_cooperative else opponents:
                # Two greedy networks would play the same game over and over; against each other they sample.
                has_variety = opponent.name != job.learner.name or (spec.is_cooperative and spec.has_chance)
                wanted = not spec.must_mix if self._config.greedy is None else self._config.greedy
                seat_up = partial(
                    evaluation_seats,
                    spec,
                    job.learner,
                    opponent,
                    greedy=wanted and has_variety,
                    nodes=(nodes, 1),
                )
                if game in self._held_out.specs and spec.has_chance:
                    openings |= {len(lineups) + number: number // spec.players for number in range(job.games)}
                lineups += [(game, seat_up(number)) for number in range(job.games)]
        return lineups, openings

    def _opponents(self, job: Job) -> Iterator[tuple[str, tuple[PolicyRef, ...], int]]:
        """Who is met in each game, with how many nodes of search; in held-out games fixed players alone."""
        yield from ((game, job.opponents, 1) for game in self._specs)
        for choice in self._config.held_out_games:
            against = self._config.against if choice.against is None else choice.against
            yield choice.key, tuple(PolicyRef(name=PolicyName(name)) for name in against), choice.nodes


def _is_of(episode: Episode | None, task: Task) -> bool:
    return episode is not None and (episode.task.seats, episode.task.seed) == (task.seats, task.seed)


@dataclass(frozen=True, slots=True, eq=False)
class Evaluator:
    """Issues evaluations and settles them at the points in time that the loop chooses."""

    evaluation: Evaluation
    explorers: Explorers
    workers: Workers
    telemetry: Telemetry
    episodes: SegmentLog

    def resume(self) -> None:
        """Find games in the log that were played before the last stop."""
        self.evaluation.recall(self.episodes)

    @property
    def is_open(self) -> bool:
        """Whether a job has been issued and not settled."""
        return self.evaluation.job is not None

    def issue(self, learner: PolicyRef, step: int, *, is_final: bool = False) -> None:
        """Begin a job; its games are played after the next `submit`."""
        self.evaluation.issue(learner, step=step, is_final=is_final)

    def submit(self) -> None:
        """Hand out the games that nobody has been given yet: the policies in them are published."""
        self.explorers.submit(self.evaluation.pending_tasks())

    def settle(self, is_stopping: Callable[[], bool] = lambda: False) -> dict[str, float]:
        """Wait for the job in progress and count it into the league; returns its scores, or nothing when stopped.

        Between updates the wait is not cut short: skipping an evaluation would make the run another one.
        """
        with self.telemetry.room("evaluate"):
            while not self.evaluation.is_complete and not is_stopping():
                self.workers.serve(POLL_S)
        if not self.evaluation.is_complete:
            return {}
        measured = self.evaluation.job
        scores = self.evaluation.settle()
        self.telemetry.meters.add("league", 0 if measured is None else len(measured.played))
        rating = {name: value for name, value in scores.items() if name.startswith("league/")}
        if measured is not None and rating:
            self.telemetry.metrics(measured.step, rating)
        return scores


class ResultLog:
    """Reports each evaluation once, through any number of stops: what is in the run's metrics has been reported."""

    def __init__(self, telemetry: Telemetry, metrics: Path) -> None:
        self._telemetry = telemetry
        self._reported: set[tuple[float, float]] = set()
        for line in read_jsonl(metrics, mention="evaluate/number"):
            self._reported.add((line["evaluate/number"], line["evaluate/version"]))
            telemetry.recall({name: value for name, value in line.items() if name.startswith("evaluate/")})

    def report(self, job: Job) -> None:
        """Write what a job measured, unless that was done before the last stop."""
        key = (float(job.number), float(job.learner.version))
        if job.scores and key not in self._reported:
            self._reported.add(key)
            which = {"evaluate/number": key[0], "evaluate/version": key[1]}
            self._telemetry.metrics(job.step, {**which, **job.scores})
