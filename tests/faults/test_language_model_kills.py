"""Runs of a language model, killed whole or in part at random moments, the warm start included.

Synchronous: they end with the weights, episodes and league of the unbroken run. Asynchronous: nothing that was
acknowledged is lost and nothing is there twice. The ordinary run kills twice each; `make faults` twenty times.
"""

import random
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from killing import (
    EXPLORER,
    RUN,
    TRAINER,
    WARM_START,
    Moment,
    check_nothing_is_doubled,
    count_events,
    describe,
    finish,
    run_through,
    start,
)

KILLS = 20


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    return path


def long(text: str, *, steps: int) -> str:
    """More updates, more explorers, and workers that may be lost as often as they are killed."""
    longer = text.replace("steps: 400", f"steps: {steps}").replace(
        "games_in_flight: 8", "games_in_flight: 8, workers: 2"
    )
    assert longer.count("workers: 2") == longer.count(f"steps: {steps}") == 1
    return longer + "runtime: {max_restarts: 1000}\n"


def random_moments(dice: random.Random, kills: int) -> list[Moment]:
    """Half of the kills end the run, at any moment from its start on; the others one of its workers."""
    moments = [Moment(event="started", within_s=4.0)]
    while len(moments) < kills:
        who = dice.choice((RUN, RUN, EXPLORER, TRAINER))
        was_killed = moments[-1].who == RUN
        event = "started" if who == RUN and was_killed else "published"
        moments.append(Moment(who=who, event=event, more=1, within_s=4.0 if event == "started" else 1.0))
    return moments


def check_same(broken: Path, whole: Path) -> None:
    found, expected = describe(broken), describe(whole)
    for part in ("progress", "files", "league", "episodes"):
        assert found[part] == expected[part], part


def test_a_killed_run_ends_with_the_same_weights_and_episodes(tmp_path: Path, language_run: Any) -> None:
    moments = [Moment(event="warm_start", within_s=5.0), Moment(who=TRAINER, more=3)]
    run_through(write(tmp_path, language_run.text), tmp_path / "run", moments, seed=5)
    assert count_events(tmp_path / "run", "warm_start") == 2, "a warm start that was killed is done again"
    assert count_events(tmp_path / "run", "worker_lost") == 1
    check_same(tmp_path / "run", language_run.path)


@pytest.mark.slow
def test_a_killed_asynchronous_run_loses_nothing_and_doubles_nothing(tmp_path: Path, language_run: Any) -> None:
    config = write(tmp_path, language_run.warmed_text + "schedule: async\n")
    run_through(config, tmp_path / "run", [Moment(who=EXPLORER, more=2), Moment(who=RUN, more=2)], seed=6)
    assert count_events(tmp_path / "run", "worker_lost") == 1
    check_nothing_is_doubled(tmp_path / "run", unacknowledged=2 * 8)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_kills_change_nothing(tmp_path: Path, language_run: Any) -> None:
    config = write(tmp_path, long(language_run.warmed_text, steps=6000))
    run_through(config, tmp_path / "run", random_moments(random.Random(15), KILLS), seed=15)
    code, error = finish(start(config, tmp_path / "whole"))
    assert code == 0, error
    check_same(tmp_path / "run", tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_kills_of_an_asynchronous_run(tmp_path: Path, language_run: Any) -> None:
    config = write(tmp_path, long(language_run.warmed_text, steps=6000) + "schedule: async\n")
    run_through(config, tmp_path / "run", random_moments(random.Random(16), KILLS), seed=16)
    check_nothing_is_doubled(tmp_path / "run", unacknowledged=KILLS * 8)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_warm_start_that_is_killed_again_and_again_comes_to_the_same_model(tmp_path: Path, language_run: Any) -> None:
    config = write(tmp_path, long(language_run.text.replace("games: 20", "games: 1600"), steps=100))
    moments = [Moment(event="warm_start", within_s=1.5)]
    for who in random.Random(17).choices((RUN, WARM_START), k=7):
        # The event is written once for each start of the run, not for each start of the worker.
        moments.append(Moment(who=who, event="warm_start", more=int(moments[-1].who == RUN), within_s=1.5))
    run_through(config, tmp_path / "run", moments, seed=17)
    code, error = finish(start(config, tmp_path / "whole"))
    assert code == 0, error
    for file in sorted((tmp_path / "whole" / "base").iterdir()):
        assert (tmp_path / "run" / "base" / file.name).read_bytes() == file.read_bytes(), file.name
    check_same(tmp_path / "run", tmp_path / "whole")
