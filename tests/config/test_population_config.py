"""What follows from a population, and what cannot stand beside it."""

from __future__ import annotations

import pytest

from ludus.config import RunConfig, build_config, describe, dump_config, parse_resolved, resolve
from ludus.config.loading.resume import check_resumable
from ludus.errors import ConfigError
from ludus.league.solvers import META_SOLVERS

VALUES = {"name": "x", "games": ["open_spiel:kuhn_poker"], "population": {}}


def make(*overrides: str) -> RunConfig:
    return build_config(VALUES, overrides)


def test_a_population_is_computed_and_a_generation_is_a_step() -> None:
    config = resolve(make("population.stop.generations=200"))
    assert config.topology == "tabular"
    assert config.train.steps == 200
    assert config.league.snapshot_every == 10
    assert config.checkpoint.every == 25
    assert config.telemetry.every_s == 0.0
    assert (config.evaluate.games, config.evaluate.final_games, config.evaluate.against) == (0, 0, ())


def test_a_resolved_population_resolves_to_itself_and_loads_back() -> None:
    config = resolve(make("population.stop={nash_conv: null, plateau: 30}", "telemetry.every_s=2"))
    assert resolve(config) == config
    assert parse_resolved(dump_config(config), "config.yaml") == config


def test_goals_may_change_and_what_is_computed_may_not() -> None:
    saved = dump_config(resolve(make()))
    check_resumable(saved, resolve(make("population.stop={nash_conv: 0.001, generations: 900}")))
    with pytest.raises(ConfigError, match=r'population.meta_solver: the run has "nash", now "uniform"'):
        check_resumable(saved, resolve(make("population.meta_solver=uniform")))


def test_check_says_what_is_done_and_when_it_ends() -> None:
    rows = dict(describe(resolve(make("population.stop.plateau=40", "population.ties=first"))))
    assert rows["topology"] == "tabular (population.oracle: nothing is played, all is computed)"
    assert rows["best responses"] == "exact, playing the first of equally good actions"
    assert rows["stops"] == (
        "at NashConv 0.01, after 500 generations, after 40 generations without a new lowest, or when no policy does better"
    )
    assert all(value and "None" not in value for value in rows.values())


def test_every_meta_solver_of_the_config_exists() -> None:
    for name in META_SOLVERS:
        assert resolve(make(f"population.meta_solver={name}"))
    with pytest.raises(ConfigError, match=r"population.meta_solver: expected nash, uniform.* did you mean nash"):
        make("population.meta_solver=nahs")


WHY = "population.oracle is exact"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("topology=split", f"topology: {WHY}, which is topology: tabular; leave out topology: split, or population"),
        ("topology=fused", f"topology: {WHY}, which is topology: tabular; leave out topology: fused, or population"),
        ("schedule=async", f"schedule: {WHY}, where nothing runs at the same time; write schedule: sync"),
        ("mode=explore", f"mode: {WHY}, where nothing is played; leave out mode: explore"),
        ("games.0=pgx:connect_four", f"games.0.key: {WHY}, which needs a game of OpenSpiel; write an open_spiel: game, not pgx:connect_four"),
        ("games.1=open_spiel:leduc_poker", f"games: {WHY}, which is for one game, and there are 2; write one open_spiel: game"),
        ("policy.model={path: ludus/tiny}", f"policy.model: {WHY}, and its policies are tables; leave it out, or population"),
        ("policy.start=runs/other", f"policy.start: {WHY}, and its policies are tables; leave it out, or population"),
        ("warm_start={}", f"warm_start: {WHY}, and there is nothing to train; leave it out, or population"),
        ("train.steps=1000", "train.steps: is 1,000, but population.stop.generations is 500; leave train.steps out"),
        ("evaluate.against=[random]", f"evaluate.against: {WHY}, and NashConv is computed after every generation without games; leave it out"),
        ("train.epochs=7", f"train.epochs: has no effect: {WHY}, so nothing is played or trained; leave it out"),
        ("explore.workers=2", f"explore.workers: has no effect: {WHY}, so nothing is played or trained; leave it out"),
        ("policy.network={kind: resnet}", f"policy.network: has no effect: {WHY}, so nothing is played or trained; leave it out"),
        ("league.opponents=[{kind: lagged}]", f"league.opponents: has no effect: {WHY}, so nothing is played or trained; leave it out"),
    ],
)  # fmt: skip
def test_what_cannot_stand_beside_a_population_is_refused_with_both_keys(change: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(make(change))
    assert line in caught.value.problems


def test_tasks_are_no_game() -> None:
    values = {"name": "x", "tasks": [{"path": "ludus/arithmetic"}], "population": {}}
    with pytest.raises(ConfigError, match=r"tasks: population.oracle is exact, which is for games"):
        resolve(build_config(values))


def test_topology_tabular_needs_a_population() -> None:
    with pytest.raises(ConfigError, match="topology: tabular computes a population, and population is null"):
        resolve(build_config({"name": "x", "games": ["open_spiel:kuhn_poker"], "topology": "tabular"}))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("population.stop.nash_conv=-1", "population.stop.nash_conv: expected a number"),
        ("population.stop.generations=0", "population.stop.generations: expected a whole number > 0"),
        ("population.orcale=exact", "population.orcale: unknown key — did you mean population.oracle?"),
        ("population.scheduler=psor", "population.scheduler: expected psro"),
    ],
)
def test_mistakes_name_the_key(change: str, line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        resolve(make(change))


@pytest.mark.parametrize(
    ("scheduler", "words"),
    [
        ("psro", "an answer to the meta-strategy joins"),
        ("pipelined_psro", "3 learn at once, each against the meta-strategy of those below it"),
        ("self_play", "an answer to the newest policy joins"),
        ("fixed", "an answer to random joins"),
        ("sequential_league", "main answers the meta-strategy over everybody, and main_exploiter the newest main"),
        ("league", "1 main agent, 1 main exploiter, 1 league exploiter learn side by side"),
    ],
)
def test_check_says_what_learners_of_every_scheduler_will_do(scheduler: str, words: str) -> None:
    config = resolve(make("population.oracle=learned", f"population.scheduler={scheduler}", "train.steps=5000"))
    rows = dict(describe(config))
    assert words in rows["population"]
    assert "5,000 steps" in rows["learners learn for"] or scheduler == "league"
    bound = "psro/nash_conv_bound, a lower bound: what the newest answers gain"
    assert rows["metric"] == ("psro/policies, and the ladder" if scheduler == "league" else bound)
    assert rows["stops"] == "at NashConv (or its bound) 0.01, after 500 generations"
    assert rows["policy"].startswith("main: mlp")
    assert "best responses" not in rows
    assert all(value and "None" not in value for value in rows.values())


def test_check_says_with_which_weights_learners_begin() -> None:
    def begins(*overrides: str) -> str:
        return dict(describe(resolve(make("population.oracle=learned", *overrides))))["learners begin with"]

    assert begins() == "random weights"
    assert begins("population.initialise=inherit_last") == "the weights of the newest of its population"
    assert begins("population.initialise=inherit_best").endswith("the meta-strategy plays most")
    assert begins("population.scheduler=sequential_league").startswith("main with the weights of its newest")
    assert "main exploiters begin anew" in begins("population.scheduler=league")
