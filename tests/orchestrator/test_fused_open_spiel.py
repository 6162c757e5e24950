"""A small game of OpenSpiel in the fused topology: it learns, and goes on exactly where it was stopped."""

import time
from pathlib import Path

import numpy as np
import pytest

from ludus import SingleRun, parse_config
from ludus.errors import ConfigError
from ludus.games.sequence_form_building import build_sequence_form
from ludus.games.tabulating import tabulate
from ludus.league.exact.network_policies import NetworkPolicies
from ludus.policies import Policy, PolicyShape, PolicyStore

CONFIG = """
name: kuhn
games: [open_spiel:kuhn_poker]
topology: fused
explore: {games_in_flight: 64}
policy: {network: {kind: mlp, hidden: [64, 64]}}
train: {steps: 60000, batch_steps: 1024, minibatch: 256, optimizer: {learning_rate: 3e-3}}
league: {opponents: [{kind: fixed, players: [random]}], snapshot_every: 20000}
evaluate: {against: [], games: 0, final_games: 0}
checkpoint: {every: 10}
telemetry: {tensorboard: false, every_s: 0}
"""


def last_policy(run: Path) -> Policy[PolicyShape]:
    store = PolicyStore(run / "policies")
    return store.load(store.versions("main")[-1], PolicyShape)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "whole"
    assert SingleRun(parse_config(CONFIG, "kuhn.yaml"), run).run_to_end().stage == "done"
    return run


def test_it_learns_to_beat_the_uniform_player_nearly_as_well_as_one_can(whole: Path) -> None:
    policy, form = last_policy(whole), build_sequence_form("kuhn_poker")
    uniform = [tree.plan_of(tree.policy_of_choices(np.ones(tree.sequences, bool))) for tree in form.seats]
    first, second = NetworkPolicies(form, tabulate("kuhn_poker"), policy.shape).plans(policy.weights)
    gets = form.payoff(first, uniform[1]) - form.payoff(uniform[0], second)
    best = form.best_response(0, uniform[1]).value + form.best_response(1, uniform[0]).value
    assert best == pytest.approx(0.91667, abs=1e-5)
    assert gets > 0.95 * best


def test_a_stopped_run_goes_on_to_the_same_weights(whole: Path, tmp_path: Path) -> None:
    config, broken = parse_config(CONFIG, "kuhn.yaml"), tmp_path / "broken"
    loop = SingleRun(config, broken)
    loop.start()
    end = time.monotonic() + 120
    while loop.wait(0.02).update < 17:
        assert time.monotonic() < end
    loop.stop()
    assert loop.wait(60).stage == "stopped"
    assert SingleRun(config, broken).run_to_end().stage == "done"
    assert last_policy(broken).weights_hash == last_policy(whole).weights_hash


def test_a_game_that_is_too_large_is_refused_before_the_run(tmp_path: Path) -> None:
    config = parse_config(CONFIG.replace("kuhn_poker", "connect_four"), "large.yaml")
    with pytest.raises(ConfigError, match="more than 200,000 histories; write topology: split"):
        SingleRun(config, tmp_path / "run").run_to_end()
