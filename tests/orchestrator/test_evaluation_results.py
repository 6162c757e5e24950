"""What an evaluation measured is reported when its last game is there, once, and says what the game pays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ludus import SingleRun, parse_config
from ludus.cli.summary import headlines
from ludus.config import EvaluateConfig, GameChoice, LeagueConfig
from ludus.games.protocol import GameSpec
from ludus.league import Pool
from ludus.orchestrator.evaluation import Evaluation, Job
from ludus.orchestrator.evaluation_scores import score_attempts, score_games
from ludus.records import Episode, PolicyName, PolicyRef, PolicyVersion, Seat, Task, TaskId, episode_id
from ludus.storage.arrow import episodes_to_table
from ludus.storage.jsonl import read_jsonl
from ludus.tasks import GameTasks

MAIN = PolicyRef(name=PolicyName("main"), version=PolicyVersion(3))
RANDOM = PolicyRef(name=PolicyName("random"))
KUHN = GameSpec(
    key="g",
    players=3,
    actions=2,
    observation_shape=(1,),
    max_length=9,
    has_chance=True,
    has_perfect_information=False,
    min_return=-2.0,
    max_return=4.0,
)


def evaluation(spec: GameSpec, report: Callable[[Job], None] = lambda job: None, **keys: Any) -> Evaluation:
    pool = Pool(LeagueConfig(), MAIN)
    pool.add_fixed("random")
    pool.add_snapshot(MAIN, 0)
    config = EvaluateConfig(games=6, pool_opponents=0, **keys)
    return Evaluation(config, GameTasks([GameChoice(key="g")], seed=0), pool, {"g": spec}, report)


def played(task: Task, returns: tuple[float, ...]) -> Episode:
    failed = Episode.failed(episode_id("run", task.id, 0), task, "")
    return Episode(**{field: getattr(failed, field) for field in failed.__slots__} | {"returns": returns})


def test_a_result_is_reported_with_the_last_game_and_counted_when_it_is_settled() -> None:
    reported: list[Job] = []
    judge = evaluation(KUHN, reported.append)
    judge.issue(MAIN, step=7, is_final=False)
    first, *rest = [played(task, (2.0, -1.0, -1.0)) for task in judge.pending_tasks()]
    judge.absorb(rest)
    assert (reported, judge.progress) == ([], "main@3: 5 of 6")
    judge.absorb([first])
    judge.absorb([first])
    assert [(job.step, job.number) for job in reported] == [(7, 0)]
    assert judge.progress == ""
    assert judge.participants(), "it is settled by the loop alone"
    assert judge._pool.payoffs.state() == []
    assert judge.settle()["evaluate/random/score"] == pytest.approx(1 / 3)
    assert judge._pool.payoffs.state() != []


class Log:
    """The log of episodes, as far as an evaluation reads it."""

    def __init__(self, episodes: Sequence[Episode]) -> None:
        self._table = episodes_to_table(episodes)

    def scan(self) -> list[tuple[int, Any]]:
        return [(0, self._table)]


def test_after_a_resume_games_in_the_log_are_not_played_again() -> None:
    before, reported = evaluation(KUHN), list[Job]()
    before.issue(MAIN, step=7, is_final=False)
    games = [played(task, (2.0, -1.0, -1.0)) for task in before.pending_tasks()]
    other = evaluation(KUHN, reported.append)
    other.load_state(before.state())
    other.recall(Log(games[:4]))  # type: ignore[arg-type]
    assert [task.id for task in other.pending_tasks()] == [game.task.id for game in games[4:]]
    other.absorb(games[4:])
    assert [job.scores for job in reported] == [before._measure(reported[0])]


def test_games_of_other_versions_under_the_same_numbers_are_played_again() -> None:
    before, newer = evaluation(KUHN), PolicyRef(name=MAIN.name, version=PolicyVersion(4))
    before.issue(newer, step=7, is_final=False)
    games = [played(task, (2.0, -1.0, -1.0)) for task in before.pending_tasks()]
    other = evaluation(KUHN)
    other.recall(Log(games))  # type: ignore[arg-type]
    other.issue(MAIN, step=7, is_final=True)
    assert len(other.pending_tasks()) == EvaluateConfig().final_games


def outcomes(returns: Sequence[tuple[float, ...]]) -> list[Episode]:
    """Games in which the learner sits in seat 0, 1, 2, 0, ..."""
    seats = [[Seat(policy=MAIN if seat == number % 3 else RANDOM) for seat in range(3)] for number in range(9)]
    tasks = [Task(id=TaskId(number), game="g", seed=0, seats=tuple(seats[number])) for number in range(len(returns))]
    return [played(task, value) for task, value in zip(tasks, returns, strict=True)]


def test_the_headline_is_the_return_where_a_game_pays_more_than_win_or_lose() -> None:
    metrics = score_games(outcomes([(4.0, -2.0, -2.0), (0.0, 0.0, 0.0), (2.0, 1.0, -1.0)]), MAIN, {"g": KUHN})
    gains = [4.0, 0.0, -1.0]
    assert metrics["evaluate/random/return"] == pytest.approx(np.mean(gains))
    assert metrics["evaluate/random/return_ci95"] == pytest.approx(1.959964 * np.std(gains, ddof=1) / 3**0.5)
    assert [metrics[f"evaluate/random/{name}"] for name in ("wins", "draws", "losses")] == pytest.approx([1 / 3] * 3)
    assert [metrics[f"evaluate/random/return_seat_{seat}"] for seat in range(3)] == gains
    (headline,) = headlines(metrics)
    assert (headline.what, headline.text) == ("return against", "+1.00 ± 2.99")


def test_the_headline_is_the_score_where_a_game_is_won_or_lost() -> None:
    spec = GameSpec(key="g", players=3, actions=2, observation_shape=(1,), max_length=9)
    (headline,) = headlines(score_games(outcomes([(1.0, -1.0, -1.0)] * 3), MAIN, {"g": spec}))
    assert (headline.what, headline.text) == ("score against", "33.3%")


def test_with_several_games_every_figure_is_also_by_game() -> None:
    other = outcomes([(0.0, 0.0, 4.0)])[0]
    renamed = Task(id=TaskId(9), game="h", seed=0, seats=other.task.seats)
    metrics = score_games(
        [*outcomes([(4.0, -2.0, -2.0)]), played(renamed, (0.0, 0.0, 4.0))], MAIN, {"g": KUHN, "h": KUHN}
    )
    assert (metrics["evaluate/g/random/return"], metrics["evaluate/h/random/return"]) == (4.0, 0.0)
    assert (metrics["evaluate/g/random/wins"], metrics["evaluate/h/random/losses"]) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("hides", "wanted", "greedy"), [(True, None, False), (True, True, True), (False, None, True), (False, False, False)]
)
def test_where_to_play_well_takes_chance_a_policy_is_not_measured_greedily(
    hides: bool, wanted: bool | None, greedy: bool
) -> None:
    spec = GameSpec(
        key="g", players=2, actions=2, observation_shape=(1,), max_length=9, has_perfect_information=not hides
    )
    judge = evaluation(spec, greedy=wanted)
    judge.issue(MAIN, step=0, is_final=False)
    assert {seat.greedy for task in judge.pending_tasks() for seat in task.seats} == {greedy}


def attempt(number: int, reward: float, *, greedy: bool) -> Episode:
    seat = Seat(policy=MAIN, greedy=greedy)
    task = Task(id=TaskId(number), game="tasks:sums", seed=0, seats=(seat,), group=f"e0.sums.{number % 2}")
    return played(task, (reward,))


def test_greedy_and_sampled_attempts_are_told_apart_and_both_are_said_where_they_differ() -> None:
    greedy = [attempt(0, 1.0, greedy=True), attempt(1, 1.0, greedy=True)]
    sampled = [attempt(2, 1.0, greedy=False), attempt(3, 0.0, greedy=False)]
    metrics = score_attempts([*greedy, *sampled], samples=1, success=1.0)
    assert (metrics["evaluate/sums/success"], metrics["evaluate/sums/sampled/success"]) == (1.0, 0.5)
    assert [each.name for each in headlines(metrics)] == ["sums", "sums/sampled"]
    assert headlines(metrics)[0].details(metrics) == " greedily, 50.0% sampled as in training"
    same = score_attempts([*greedy, *(attempt(n, 1.0, greedy=False) for n in (2, 3))], samples=1, success=1.0)
    assert [each.name for each in headlines(same)] == ["sums"]


RUN = """
name: kuhn
games: [open_spiel:kuhn_poker(players=3)]
topology: split
explore: {games_in_flight: 8}
policy: {network: {kind: mlp, hidden: [8]}}
train: {steps: 100_000_000, batch_episodes: 16, minibatch: 64, epochs: 1}
league: {snapshot_every: 1_000_000}
evaluate: {games: 6, every: 50_000_000}
checkpoint: {every: 1}
telemetry: {tensorboard: false, every_s: 0}
"""


def results(run: Path) -> list[dict[str, Any]]:
    return [line for line in read_jsonl(run / "metrics.jsonl") if "evaluate/random/return" in line]


def wait_for(run: SingleRun, sign: Callable[[], bool]) -> None:
    for _ in range(6000):
        if sign():
            return
        run.wait(0.02)
        assert not run.status().is_over
    raise AssertionError("it did not come")


def test_the_first_result_of_a_run_is_there_long_before_the_next_is_due_and_once_through_resumes(
    tmp_path: Path,
) -> None:
    """The next evaluation would be due after 50 million steps; the run is stopped after a few hundred, twice."""
    config, seen = parse_config(RUN, "kuhn.yaml"), []
    for _ in range(2):
        run = SingleRun(config, tmp_path / "run")
        run.start()
        wait_for(run, lambda: bool(results(tmp_path / "run")) and run.status().update > len(seen) * 2)  # noqa: B023
        seen.append(run.status().metrics["evaluate/random/return"])
        run.stop()
        assert run.wait(60).stage == "stopped"
    (line,) = results(tmp_path / "run")
    assert (line["step"], line["evaluate/number"], line["evaluate/version"]) == (0, 0, 0)
    assert line["evaluate/exploitability"] == pytest.approx(line["evaluate/nash_conv"] / 3)
    assert seen == [line["evaluate/random/return"]] * 2
