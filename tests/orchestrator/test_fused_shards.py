"""A fused run on several devices: it learns, goes on exactly where it was stopped, and no core count changes a bit."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

from ludus import SingleRun, parse_config
from ludus.config import resolve
from ludus.errors import ConfigError
from ludus.games.pgx import PgxGame
from ludus.games.registry import find_device_game
from ludus.games.sequence_form_building import build_sequence_form
from ludus.games.tabulating import tabulate
from ludus.league.exact.network_policies import NetworkPolicies
from ludus.orchestrator.fused.program import FusedProgram, FusedState, find_program
from ludus.orchestrator.policy_start import network_shape
from ludus.policies import Policy, PolicyShape, PolicyStore
from ludus.train.jax_shards import AXIS, agree

CONFIG = """
name: kuhn
games: [open_spiel:kuhn_poker]
topology: fused
explore: {games_in_flight: 64}
policy: {network: {kind: mlp, hidden: [64, 64]}}
train: {steps: 60000, batch_steps: 1024, minibatch: 256, shards: 2, optimizer: {learning_rate: 3e-3}}
league: {opponents: [{kind: fixed, players: [random]}], snapshot_every: 20000}
evaluate: {against: [], games: 0, final_games: 0}
checkpoint: {every: 10}
telemetry: {tensorboard: false, every_s: 0}
"""


def last_policy(run: Path) -> Policy[PolicyShape]:
    store = PolicyStore(run / "policies")
    return store.load(store.versions("main")[-1], PolicyShape)


def check_same(run: Path, other: Path) -> None:
    first, second = last_policy(run).weights, last_policy(other).weights
    assert first.keys() == second.keys()
    assert all(np.array_equal(first[name], second[name]) for name in first)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "whole"
    assert SingleRun(parse_config(CONFIG, "kuhn.yaml"), run).run_to_end().stage == "done"
    return run


def test_two_shards_learn_to_beat_the_uniform_player_nearly_as_well_as_one_can(whole: Path) -> None:
    policy, form = last_policy(whole), build_sequence_form("kuhn_poker")
    uniform = [tree.plan_of(tree.policy_of_choices(np.ones(tree.sequences, bool))) for tree in form.seats]
    first, second = NetworkPolicies(form, tabulate("kuhn_poker"), policy.shape).plans(policy.weights)
    gets = form.payoff(first, uniform[1]) - form.payoff(uniform[0], second)
    best = form.best_response(0, uniform[1]).value + form.best_response(1, uniform[0]).value
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
    check_same(broken, whole)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be chosen here")
def test_a_run_on_one_core_ends_with_the_same_weights(whole: Path, tmp_path: Path) -> None:
    config = tmp_path / "kuhn.yaml"
    config.write_text(CONFIG)
    run = [*("-m", "ludus.cli.app", "run", str(config), "--run-dir", str(tmp_path / "run"), "--quiet")]
    core = min(os.sched_getaffinity(0))
    done = subprocess.run(
        [sys.executable, "-c", f"import os, sys; os.sched_setaffinity(0, {{{core}}}); os.execv(sys.executable, "
         f"[sys.executable, *{run!r}])"],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    check_same(tmp_path / "run", whole)


def test_another_number_of_shards_is_another_run(whole: Path) -> None:
    with pytest.raises(ConfigError, match=r"train\.shards: the run has 2, now 1; write it as before"):
        SingleRun(parse_config(CONFIG.replace("shards: 2", "shards: 1"), "kuhn.yaml"), whole).run_to_end()


def test_more_shards_than_devices_are_refused(tmp_path: Path) -> None:
    text = CONFIG.replace("shards: 2", "shards: 32")
    with pytest.raises(ConfigError, match=r"train\.shards: 32 shards need as many devices, .* JAX_NUM_CPU_DEVICES=32"):
        SingleRun(parse_config(text, "kuhn.yaml"), tmp_path / "run").run_to_end()


@pytest.fixture(scope="module")
def updated() -> tuple[FusedProgram, FusedState, dict[str, Any], Any]:
    """A program of two shards with opponents, and what comes of one update."""
    config = resolve(parse_config("name: x\ngames: [pgx:tic_tac_toe]\ntrain: {shards: 2, minibatch: 64}", "x.yaml"))
    game = PgxGame("tic_tac_toe")
    shape = network_shape(config, {game.spec.key: game.spec})
    options: dict[str, Any] = {"games": 16, "horizon": 16, "blocks": (4,), "learner_seat": None, "noise": 0.0}
    program = find_program(find_device_game(game), shape, config.train, **options)
    learner = program.learner.init(1)
    opponent = {name: jnp.zeros_like(tensor) for name, tensor in learner.params.items()}
    state = FusedState(learner, program.start(jax.random.key(1)), jax.random.key(2))
    after, metrics, tally = program.update(state, (opponent,), np.zeros(1, np.bool_), np.float32(0))
    return program, after, metrics, tally


def test_all_shards_hold_the_same_weights_and_other_games(updated: tuple[Any, FusedState, Any, Any]) -> None:
    _, state, _, _ = updated
    for leaf in jax.tree.leaves((state.learner, state.key)):
        first, second = (np.asarray(_raw(part.data)) for part in leaf.addressable_shards)
        assert np.array_equal(first, second)
    first, second = (np.asarray(part.data) for part in state.games.state.legal_action_mask.addressable_shards)
    assert first.shape == second.shape == (16, 9)
    assert not np.array_equal(first, second)


def test_games_and_rows_of_all_shards_are_counted(updated: tuple[Any, Any, Any, Any]) -> None:
    _, _, metrics, tally = updated
    # 24 mirror games and 8 with one opponent, 16 plies each; every second move of these is the opponent's.
    assert 24 * 16 + 8 * 16 * 0.3 < float(metrics["rows"]) < 24 * 16 + 8 * 16 * 0.7
    assert 32 < float(tally.episodes) < 32 * 16 / 5
    assert float(metrics["skipped"]) == 0


def test_shards_agree_on_means_of_real_numbers_and_on_the_largest_count() -> None:
    each = PartitionSpec(AXIS)
    mesh = Mesh(np.array(jax.devices()[:2]), (AXIS,))
    tree = {"weights": jnp.array([[1.0, 2.0], [3.0, 6.0]]), "count": jnp.array([[4], [7]])}
    agreed = jax.jit(jax.shard_map(agree, mesh=mesh, in_specs=(each,), out_specs=each, check_vma=False))(tree)
    assert agreed["weights"].tolist() == [[2.0, 4.0], [2.0, 4.0]]
    assert agreed["count"].tolist() == [[7], [7]]


def _raw(leaf: jax.Array) -> jax.Array:
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
