"""Populations and fused runs on a Ray cluster end as local ones do, bit for bit, whatever is killed."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from killing import EXPLORER, RUN, TRAINER, Moment, finish, run_through, start
from test_learned_population_kills import LEAGUE, assignments, described

pytestmark = [pytest.mark.ray, pytest.mark.timeout(1800)]

LEARNER = "ludus.orchestrator.fused.worker"

FUSED = LEAGUE.replace("20_000", "10_000").replace("stop: {nash_conv: null}", "stop: {generations: 2, nash_conv: null}")

SPLIT = """
name: killed
games: [open_spiel:kuhn_poker]
topology: split
policy: {network: {kind: mlp, hidden: [8]}}
explore: {games_in_flight: 16, workers: 1}
train: {steps: 1500, batch_episodes: 32, minibatch: 64, epochs: 1}
telemetry: {tensorboard: false}
population: {oracle: learned, payoffs: {games: 10, extra: 6}, stop: {generations: 2, nash_conv: null}}
"""


def check_same(tmp_path: Path, text: str, moments: list[Moment], seed: int) -> None:
    """A run on Ray with these kills ends as an undisturbed local one does."""
    for name, runtime in (("whole", "local"), ("broken", "ray")):
        (tmp_path / f"{name}.yaml").write_text(f"{text}runtime: {runtime}\n")
    run_through(tmp_path / "broken.yaml", tmp_path / "broken", moments, seed=seed)
    code, error = finish(start(tmp_path / "whole.yaml", tmp_path / "whole"))
    assert code == 0, error
    assert described(tmp_path / "broken") == described(tmp_path / "whole")
    assert assignments(tmp_path / "broken") == assignments(tmp_path / "whole")


def test_fused_learners_of_a_league_and_its_loop_are_killed(tmp_path: Path) -> None:
    moments = [
        Moment(who=LEARNER, event="assignment", within_s=2.0),
        Moment(who=LEARNER, event="joined", within_s=1.0),
        Moment(who=RUN, event="assignment", within_s=2.0),
        Moment(who=EXPLORER, event="joined", within_s=1.0),
    ]
    check_same(tmp_path, FUSED, moments, seed=7)


def test_split_learners_of_a_population_and_its_loop_are_killed(tmp_path: Path) -> None:
    moments = [
        Moment(who=TRAINER, event="joined", within_s=2.0),
        Moment(who=EXPLORER, event="joined", within_s=1.0),
        Moment(who=RUN, event="assignment", within_s=2.0),
    ]
    check_same(tmp_path, SPLIT, moments, seed=8)
