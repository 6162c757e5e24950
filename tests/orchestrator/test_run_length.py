"""A run ends by steps, updates or hours, whichever comes first, and a resume counts on."""

from __future__ import annotations

import pytest

from ludus.cli.arguments import hours_of
from ludus.config import RunConfig, parse_config, resolve
from ludus.config.describe.describe_run import run_length
from ludus.errors import ConfigError
from ludus.orchestrator.milestones import Milestones
from ludus.orchestrator.progress import Progress, RunClock, UpdateReport

UPDATE = UpdateReport(steps=10, episodes=1)


def config(train: str) -> RunConfig:
    return resolve(parse_config(f"name: x\ngames: [open_spiel:kuhn_poker]\ntopology: split\ntrain: {{{train}}}\n", "x"))


def milestones(train: str, *, seconds_per_update: float = 0.0) -> Milestones:
    """With a clock that moves by so much in each update."""
    made = Milestones(config(train), Progress())
    ticks = iter(range(10_000))
    made.clock = RunClock(made.progress, lambda: next(ticks) * seconds_per_update)
    return made


def updates_to_the_end(made: Milestones) -> int:
    done = 0
    while not made.is_enough:
        made.count(UPDATE)
        done += 1
    return done


@pytest.mark.parametrize(
    ("train", "updates"),
    [
        ("updates: 7", 7),
        ("steps: 35", 4),
        ("hours: 2", 12),
        ("updates: 7, hours: 2, steps: 50", 5),
        ("updates: 3, hours: 2, steps: 50", 3),
        ("updates: 30, hours: 0.5, steps: 5000", 3),
    ],
)
def test_the_first_length_that_is_reached_ends_the_run_for_good(train: str, updates: int) -> None:
    made = milestones(train, seconds_per_update=600.0)
    assert updates_to_the_end(made) == updates
    assert made.is_complete
    assert made.share_done == 1.0
    due = made.due(1)
    assert due.version, "the final version is published"
    assert due.snapshot, "and joins the pool, as at the end by steps"


def test_a_resume_counts_on_and_more_updates_reopen_a_finished_run() -> None:
    before = milestones("updates: 4, hours: 9", seconds_per_update=60.0)
    updates_to_the_end(before)
    before.progress.finish()
    again = milestones("updates: 6", seconds_per_update=60.0)
    again.progress.load_state(before.progress.state())
    again.clock.load_state(before.clock.state())
    again.reopen()
    assert again.clock.seconds == 240.0
    assert not again.progress.finished
    assert updates_to_the_end(again) == 2, "the update that marked the end is none of training"


def test_a_run_of_an_earlier_release_knows_its_updates() -> None:
    made = milestones("updates: 9")
    made.progress.load_state({"update": 8, "steps": 70, "finished": True})
    made.reopen()
    assert made.clock.updates == 7


def test_without_steps_snapshots_and_evaluations_come_every_twentieth_of_the_run() -> None:
    made = milestones("updates: 100")
    snapshots = []
    for update in range(1, 100):
        made.count(UPDATE)
        if made.due(None).snapshot:
            snapshots.append(update)
            made.progress.publish(update)
    assert snapshots == list(range(5, 100, 5))


def test_a_pause_is_not_training() -> None:
    now = [0.0]
    clock = RunClock(Progress(), lambda: now[0])
    now[0] = 10.0
    clock.count(0.0)
    now[0] = 500.0
    clock.restart()
    now[0] = 505.0
    clock.count(0.0)
    assert clock.seconds == 15.0


def test_steps_have_a_default_only_where_no_other_length_is_given() -> None:
    assert config("minibatch: 8").train.steps == 10_000_000
    assert config("updates: 8").train.steps is None
    assert config("hours: 0.1").train.steps is None


def test_what_has_been_done_of_a_length_is_said_in_clock_time() -> None:
    made = milestones("updates: 4, hours: 2", seconds_per_update=600.0)
    made.count(UPDATE)
    assert made.length == "update 1/4  10:00 of 2:00:00"
    assert milestones("hours: 0.0055556").length == "0:00 of 0:20"


@pytest.mark.parametrize(
    ("train", "said"),
    [
        ("hours: 1.5, steps: 5000", "until 5,000 steps or 1.5 hours are done"),
        ("hours: 0.25", "until 15 minutes are done"),
        ("hours: 0.0055556", "until 20 seconds are done"),
    ],
)
def test_a_config_is_described_with_a_time_that_people_say(train: str, said: str) -> None:
    assert run_length(config(train)) == said


@pytest.mark.parametrize(
    ("text", "hours"), [("2h", 2.0), ("90m", 1.5), ("1h30m", 1.5), ("36s", 0.01), ("1d", 24.0), ("0.5h", 0.5)]
)
def test_the_command_line_takes_a_time(text: str, hours: float) -> None:
    assert hours_of(text) == pytest.approx(hours)


@pytest.mark.parametrize("text", ["2", "h", "", "-1h", "2 hours", "1..5h", "0h"])
def test_what_is_no_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match="write it as 2h"):
        hours_of(text)


def test_a_population_is_told_what_its_length_is() -> None:
    text = "name: x\ngames: [open_spiel:kuhn_poker]\npopulation: {oracle: learned}\ntrain: {hours: 2}\n"
    with pytest.raises(ConfigError, match=r"train\.hours: each learner of a population learns for train\.steps"):
        resolve(parse_config(text, "x"))
