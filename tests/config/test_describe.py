"""What `ludus check` says follows from a config."""

from __future__ import annotations

from ludus.config import build_config, demo_config, describe, resolve
from ludus.config.describe.describe_run import updates_in_run


def test_the_numbers_of_a_fused_run_are_worked_out() -> None:
    values = {"name": "x", "games": ["pgx:connect_four"], "explore": {"games_in_flight": 512}}
    config = resolve(build_config(values))
    rows = dict(describe(config))
    assert rows["batch"] == "8,192 steps (16 of each of 512 games)"
    assert rows["minibatches per epoch"] == "32 of 256 steps"
    assert rows["optimizer steps"] == "128 per update (epochs: 4)"
    assert rows["updates in the run"] == "1,221 (10,002,432 steps)"
    assert rows["algorithm"] == "ppo: 1 ppo_clip + 1 value + 0.01 entropy, gae"
    assert rows["checkpoints"] == "every 50 updates, 25 in the run, 3 kept"
    assert rows["snapshots"] == "every 500,000 steps, 20 in the run, 16 kept as opponents"
    assert rows["processes"] == "main and evaluator"
    assert updates_in_run(config) == 1221


def test_split_says_what_depends_on_the_games_and_why_it_is_split() -> None:
    values = {"name": "x", "games": ["open_spiel:kuhn_poker"], "schedule": "async"}
    config = resolve(build_config(values, ["explore.workers=3", "policy.network={kind: resnet}"]))
    rows = dict(describe(config))
    assert rows["topology"] == "split (games.0.key: open_spiel:kuhn_poker is not a pgx game)"
    assert rows["batch"] == "256 episodes"
    assert rows["experience"] == "at most 2 versions old, used at most 1 times"
    assert rows["buffer"] == "4,096 sequences, fifo; first batch at 256"
    assert rows["processes"] == "main, 3 explorers, trainer"
    assert rows["policy"] == "main: resnet 2x32"
    assert updates_in_run(config) is None


def test_every_mode_of_the_split_topology_has_its_processes() -> None:
    """Exploring alone needs the trainer for the first weights, training alone the explorers for evaluation."""
    values = {"name": "x", "games": ["open_spiel:kuhn_poker"]}
    for mode in ("both", "explore", "train"):
        rows = dict(describe(resolve(build_config({**values, "mode": mode}))))
        assert rows["processes"] == "main, 1 explorer, trainer"
    explore = dict(describe(resolve(build_config({**values, "mode": "explore"}))))
    assert explore["schedule"] == "sync, explore only"


def test_no_value_is_empty_or_broken_over_lines() -> None:
    for label, value in describe(resolve(demo_config())):
        assert value
        assert "\n" not in label + value
        assert "None" not in value


def test_a_mixed_objective_is_spelled_out() -> None:
    values = {"name": "x", "games": ["open_spiel:tic_tac_toe"], "policy": {"model": {"path": "models/tiny"}}}
    for preset, algorithm, mu in (
        ("mix", "mix: 1 (1 - mu) ppo_clip + 1 mu sft of expert + 0 entropy, group", "0.1"),
        (
            "chord",
            "chord: 1 (1 - mu) ppo_clip + 1 mu sft of expert + 0 entropy, group",
            "0.9 to 0.05 over 50% of the run, then 0.05",
        ),
    ):
        config = resolve(build_config(values, ["explore.group=4", f"train.algorithm.preset={preset}"]))
        rows = dict(describe(config))
        assert (rows["algorithm"], rows["mu"]) == (algorithm, mu)


def test_every_batch_size_of_a_mixed_objective_is_worked_out() -> None:
    values = {
        "name": "x",
        "tasks": ["ludus/arithmetic"],
        "rewards": [{"kind": "exact"}],
        "policy": {"model": {"path": "ludus/mini"}},
        "explore": {"group": 8},
        "buffer": {"expert": {"sources": ["ludus/arithmetic"], "rows": 36}},
        "train": {"batch_episodes": 64, "minibatch": 30, "epochs": 2, "algorithm": {"preset": "mix"}},
        "evaluate": {"tasks": [{"path": "ludus/arithmetic", "split": "test", "name": "held_out"}], "samples": 4},
    }
    rows = dict(describe(resolve(build_config(values))))
    assert rows["batch"] == "64 episodes (8 beginnings, 8 attempts at each)"
    assert rows["expert rows"] == "36 in each batch"
    assert rows["minibatches per epoch"] == "4 (100 sequences, up to 30 in each)"
    assert rows["optimizer steps"] == "8 per update (epochs: 2)"
    assert rows["evaluations"].endswith("every task of held_out 4 times")


def test_a_run_that_only_imitates_plays_no_batch() -> None:
    values = {
        "name": "x",
        "tasks": ["ludus/arithmetic"],
        "rewards": [{"kind": "exact"}],
        "policy": {"model": {"path": "ludus/mini"}},
        "buffer": {"expert": {"sources": ["ludus/arithmetic"], "rows": 36}},
        "train": {"minibatch": 36, "algorithm": {"preset": "sft"}},
    }
    rows = dict(describe(resolve(build_config(values))))
    assert "batch" not in rows
    assert rows["minibatches per epoch"] == "1 (36 sequences, up to 36 in each)"
    assert rows["evaluations"].endswith("of nothing (evaluate.tasks is empty)")


def test_measuring_says_what_of_whom_and_on_what() -> None:
    values = {"name": "x", "games": ["pgx:connect_four"], "mode": "evaluate", "policy": {"start": "runs/y"}}
    rows = dict(describe(resolve(build_config(values))))
    assert rows["run"] == "runs/x-evaluate"
    assert rows["measures"] == "the latest version of runs/y; nothing is trained"
    assert rows["evaluation"] == "400 games against each of random"
    assert rows["processes"] == "main, 1 explorer"
    assert not {"batch", "algorithm", "topology"} & rows.keys()
    all_of_them = resolve(build_config({**values, "evaluate": {"versions": "all"}}))
    assert dict(describe(all_of_them))["measures"] == "all versions of runs/y; nothing is trained"
    one = resolve(build_config({**values, "policy": {"start": "runs/y@3"}}))
    assert dict(describe(one))["measures"] == "one version: runs/y@3; nothing is trained"
