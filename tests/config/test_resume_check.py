"""Which keys may change when a run goes on."""

from __future__ import annotations

import pytest

from ludus.config import RunConfig, build_config, dump_config, resolve
from ludus.config.loading.resume import MAY_CHANGE, check_resumable
from ludus.config.loading.slots import all_paths
from ludus.errors import ConfigError


def make(*overrides: str) -> RunConfig:
    return resolve(build_config({"name": "x", "games": ["pgx:connect_four"]}, overrides))


def test_the_same_config_goes_on() -> None:
    check_resumable(dump_config(make()), make())


def test_a_run_that_is_older_than_a_derived_key_goes_on() -> None:
    saved = dump_config(make())
    older = "\n".join(
        line for line in saved.splitlines() if "critic:" not in line and "value_normalisation:" not in line
    )
    assert older != saved
    check_resumable(older, make())
    with pytest.raises(ConfigError, match=r"policy\.critic: the run has"):
        check_resumable(older, make("policy.critic=own"))


def test_how_long_and_how_often_may_change() -> None:
    changed = make(
        "train.steps=20000000", "evaluate.games=7", "checkpoint.every=3", "runtime.threads=2", "record.keep_mb=9"
    )
    check_resumable(dump_config(make()), changed)


LANGUAGE = {"name": "x", "games": ["open_spiel:tic_tac_toe"], "policy": {"model": {"path": "ludus/tiny"}}}
VLLM = {"kind": "vllm", "url": "http://127.0.0.1:8000/v1", "model": "base"}


def make_language(*overrides: str) -> RunConfig:
    algorithm = {"preset": "reinforce"}
    return resolve(
        build_config({**LANGUAGE, "explore": {"engine": VLLM}, "train": {"algorithm": algorithm}}, overrides)
    )


@pytest.mark.parametrize(
    "change",
    [
        "train.tokens_per_micro_batch=4096",
        "train.device=cpu",
        "train.activation_checkpointing=true",
        "train.trainers=4",
        "explore.engine.url=http://10.0.0.9:8000/v1",
        "explore.engine.patience_s=5",
    ],
)
def test_on_which_machine_a_language_model_learns_may_change(change: str) -> None:
    assert make_language(change) != make_language()
    check_resumable(dump_config(make_language()), make_language(change))


def test_another_base_model_at_the_server_makes_it_another_run() -> None:
    with pytest.raises(ConfigError, match=r'explore\.engine\.model: the run has "base", now "other"'):
        check_resumable(dump_config(make_language()), make_language("explore.engine.model=other"))


def test_what_is_learned_may_not_change_and_all_differences_are_named() -> None:
    changed = make(
        "seed=1", "policy.network={kind: mlp, hidden: [64]}", "train.optimizer.learning_rate=0.5", "train.steps=9e6"
    )
    with pytest.raises(ConfigError) as refused:
        check_resumable(dump_config(make()), changed)
    assert refused.value.problems == (
        "seed: the run has 0, now 1; write it as before, or choose another --run-dir",
        "policy.network.hidden: the run has [128, 128], now [64]; write it as before, or choose another --run-dir",
        "train.optimizer.learning_rate: the run has 0.001, now 0.5; write it as before, or choose another --run-dir",
    )


def test_a_saved_config_that_cannot_be_read_is_bad_input_not_a_crash() -> None:
    with pytest.raises(ConfigError, match=r"config\.yaml:1  sead: unknown key"):
        check_resumable("sead: 1\nname: x\ngames: [a]\n", make())


def test_every_key_that_may_change_exists() -> None:
    assert set(MAY_CHANGE) <= {".".join(map(str, path)) for path in all_paths(RunConfig)}


def test_a_run_that_trains_cannot_become_one_that_measures() -> None:
    start = "policy.start=runs/y"
    check_resumable(dump_config(make(start, "topology=split")), make(start, "topology=split", "mode=train"))
    with pytest.raises(ConfigError, match='mode: the run has "both", now "evaluate"'):
        check_resumable(dump_config(make(start)), make(start, "mode=evaluate"))


def test_another_version_of_the_same_run_may_be_measured() -> None:
    one = make("mode=evaluate", "policy.start=runs/y@3")
    check_resumable(dump_config(one), make("mode=evaluate", "policy.start=runs/y", "evaluate.versions=all"))
    with pytest.raises(ConfigError, match=r'policy\.start: the run has "runs/y@3", now "runs/z@3"'):
        check_resumable(dump_config(one), make("mode=evaluate", "policy.start=runs/z@3"))
