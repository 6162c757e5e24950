"""Evaluation beside training: jobs of games that are issued at fixed steps and counted at fixed steps.

Invariant: the league changes only when `settle` is called, with all games of a job at once and in task order. So what
training sees of the league does not depend on how fast evaluation games were played, and a run can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import comb, isfinite
from typing import TYPE_CHECKING, Any

from ludus.config import EvaluateConfig
from ludus.games.protocol import GameSpec
from ludus.league import Pool, evaluation_seats, rating_opponents
from ludus.orchestrator.rollout_sink import invalid_share
from ludus.orchestrator.workers import POLL_S, Workers
from ludus.records import Episode, Match, PolicyName, PolicyRef, Seat, Task
from ludus.tasks import EvaluationPlan, TaskStream
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

    @property
    def is_complete(self) -> bool:
        """Whether every game has come back."""
        return len(self.played) == len(self.tasks)

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


class Evaluation:
    """Issues evaluation jobs and settles them into the pool."""

    def __init__(self, config: EvaluateConfig, tasks: TaskStream, pool: Pool, specs: Mapping[str, GameSpec]) -> None:
        """`specs` are those of the games; whatever else comes back is an attempt at a task."""
        self._config = config
        self._tasks = tasks
        self._pool = pool
        self._specs = specs
        self._issued = 0
        self._pending: list[Task] = []
        self.job: Job | None = None

    @property
    def is_complete(self) -> bool:
        """Whether nothing is being waited for."""
        return self.job is None or self.job.is_complete

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

    def absorb(self, episodes: Sequence[Episode]) -> None:
        """Note evaluation games that came back."""
        if self.job is not None:
            for episode in episodes:
                if episode.task.id in self.job.tasks:
                    self.job.played[episode.task.id] = episode

    def settle(self) -> dict[str, float]:
        """Count a complete job into the pool, in task order; returns the scores by opponent as metrics."""
        if self.job is None:
            return {}
        job, self.job = self.job, None
        played = [job.played[number] for number in sorted(job.played)]
        attempts = [episode for episode in played if episode.task.is_attempt]
        games = [episode for episode in played if not episode.task.is_attempt]
        scores = score_attempts(attempts, samples=self._config.samples, success=self._config.success)
        return scores | (self._count_games(job, games) if self._specs else {})

    def _count_games(self, job: Job, games: Sequence[Episode]) -> dict[str, float]:
        scores: dict[str, list[float]] = {}
        for episode in games:
            if episode.error or not _is_sound(episode):
                continue
            seats = tuple(seat.policy for seat in episode.task.seats)
            self._pool.record(Match(id=episode.id, game=episode.task.game, seats=seats, returns=episode.returns))
            for name, value in self._results(episode, job.learner).items():
                scores.setdefault(f"evaluate/{name}", []).append(value)
                if len(self._specs) > 1:
                    of_game = f"evaluate/{episode.task.game}/{name if '/' in name else f'itself/{name}'}"
                    scores.setdefault(of_game, []).append(value)
        metrics = {name: sum(values) / len(values) for name, values in scores.items()}
        spoken = [episode for episode in games if episode.replies and not episode.error]
        seats_of = ([seat.policy for seat in episode.task.seats] for episode in spoken)
        invalid = invalid_share(zip(spoken, (seats.index(job.learner) for seats in seats_of), strict=True))
        if invalid is not None:
            metrics["evaluate/invalid_moves"] = invalid
        member = self._pool.find(job.learner)
        if member is not None and metrics:
            metrics |= {"league/mu": member.rating.mu, "league/sigma": member.rating.sigma}
        return metrics

    def _results(self, episode: Episode, learner: PolicyRef) -> dict[str, float]:
        """What one game says of the learner, by name of the metric."""
        seats = [seat.policy for seat in episode.task.seats]
        if set(seats) == {learner}:
            return {"return": sum(episode.returns) / len(seats)}
        mine = seats.index(learner)
        opponent = next(ref for ref in seats if ref != learner)
        label = "past" if opponent.name == learner.name else str(opponent.name)
        results = {f"{label}/score": score(episode.returns, mine)}
        if not self._specs[episode.task.game].is_zero_sum:
            results[f"{label}/return"] = episode.returns[mine]
        return results

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
        # Several attempts at a task must differ; a single one is the likeliest.
        attempt = Seat(policy=job.learner, greedy=self._config.greedy and self._config.samples == 1)
        plan = EvaluationPlan(line_ups=self._lineups(job), attempt=attempt, samples=self._config.samples)
        self._pending = self._tasks.evaluation(job.number, plan)
        job.tasks = {task.id: task for task in self._pending}

    def _lineups(self, job: Job) -> list[tuple[str, tuple[Seat, ...]]]:
        lineups: list[tuple[str, tuple[Seat, ...]]] = []
        for game, spec in self._specs.items():
            for opponent in (job.learner,) if spec.is_cooperative else job.opponents:
                # Two greedy networks would play the same game over and over; against each other they sample.
                has_variety = opponent.name != job.learner.name or (spec.is_cooperative and spec.has_chance)
                greedy = self._config.greedy and has_variety
                for number in range(job.games):
                    seats = evaluation_seats(spec, job.learner, opponent, number, greedy=greedy)
                    lineups.append((game, seats))
        return lineups


def score(returns: Sequence[float], seat: int) -> float:
    """1 for the best return, 0.5 when shared with everybody, 0 otherwise."""
    best = max(returns)
    if returns[seat] < best:
        return 0.0
    return 0.5 if all(value == best for value in returns) else 1.0


def _is_sound(episode: Episode) -> bool:
    """Whether a game gave every seat a finite return; one that did not costs itself only."""
    return len(episode.returns) == len(episode.task.seats) and all(map(isfinite, episode.returns))


@dataclass(frozen=True, slots=True, eq=False)
class Evaluator:
    """Issues evaluations and settles them at the points in time that the loop chooses."""

    evaluation: Evaluation
    explorers: Explorers
    workers: Workers
    telemetry: Telemetry

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
        if measured is not None and scores:
            self.telemetry.metrics(measured.step, scores)
        return scores


def score_attempts(episodes: Iterable[Episode], *, samples: int, success: float) -> dict[str, float]:
    """Metrics by name, such as `evaluate/held_out/pass@4`: mean@k, best@k and pass@k of each held-out set.

    An attempt that failed to run counts as no success and, in the mean, as nothing earned.
    """
    metrics: dict[str, float] = {}
    for name, tasks in _by_set(episodes).items():
        rewards = list(tasks.values())
        at = f"@{samples}" if samples > 1 else ""
        metrics[f"evaluate/{name}/mean{at}"] = _mean([_mean(each) for each in rewards])
        metrics[f"evaluate/{name}/success"] = _mean([_mean([value >= success for value in each]) for each in rewards])
        if samples > 1:
            metrics[f"evaluate/{name}/best{at}"] = _mean([max(each) for each in rewards])
            for k in (2**power for power in range(samples.bit_length())):
                chances = [pass_at(k, sum(value >= success for value in each), len(each)) for each in rewards]
                metrics[f"evaluate/{name}/pass@{k}"] = _mean(chances)
    return metrics


def pass_at(k: int, successes: int, attempts: int) -> float:
    """The unbiased estimate of the chance that one of k attempts at a task succeeds, `1 - C(n - c, k) / C(n, k)`.

    With fewer than k attempts: whether one succeeded.
    """
    if attempts < k:
        return float(successes > 0)
    return 1.0 - comb(attempts - successes, k) / comb(attempts, k)


def _by_set(episodes: Iterable[Episode]) -> Mapping[str, dict[str, list[float]]]:
    """Rewards by set and task, in the order of the tasks."""
    found: dict[str, dict[str, list[float]]] = {}
    for episode in sorted(episodes, key=lambda each: each.task.id):
        name = episode.task.game.partition(":")[2]
        earned = 0.0 if episode.error else float(episode.returns[0])
        found.setdefault(name, {}).setdefault(episode.task.group, []).append(earned)
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
