"""Greedy attempts and teachers: what they need from other keys, and what `ludus check` says of them."""

from __future__ import annotations

import pytest

from ludus.config import RunConfig, build_config, resolve
from ludus.config.describe.describe_run import describe
from ludus.errors import ConfigError


def make(*overrides: str) -> RunConfig:
    words = {"name": "x", "tasks": ["t.jsonl"], "rewards": [{"kind": "exact"}], "policy": {"model": {"path": "m"}}}
    return build_config(words, ("explore.group=4", "train.batch_episodes=32", *overrides))


REMAX, DISTILL = "train.algorithm.preset=remax", "train.algorithm.preset=distill"
KIND = "train.algorithm.advantage.kind"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ([REMAX, "explore.group=1"], f"{KIND}: is remax, .* write explore.group: 2 or more"),
        ([DISTILL], f"{KIND}: is distill, but policy.teacher is not given; write policy: {{teacher: "),
        (["train.algorithm.preset=grpo", "policy.teacher=m"], f"policy.teacher: has no effect: {KIND} is group"),
        ([DISTILL, "policy.teacher={dtype: float32}"], "policy.teacher: policy.teacher.path is a model and policy.tea"),
        ([DISTILL, "policy.teacher={path: a, run: b}"], "policy.teacher: policy.teacher.path .* write one of the two"),
        ([REMAX, "train.batch_episodes=30"], r"train.batch_episodes: 30 attempts are no whole .* \(explore.group: 4\)"),
    ],
)
def test_what_cannot_hold_is_refused_with_both_keys(changes: list[str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        resolve(make(*changes))


def test_groups_of_games_are_whole_too() -> None:
    game = {"name": "x", "games": ["open_spiel:tic_tac_toe"], "policy": {"model": {"path": "m"}}}
    with pytest.raises(ConfigError, match=r"train.batch_episodes: 30 episodes are .* \(explore.group: 4\); write 32"):
        resolve(build_config(game, ("explore.group=4", "train.batch_episodes=30", REMAX)))


def test_a_path_alone_is_a_teacher() -> None:
    teacher = resolve(make(DISTILL, "policy.teacher=models/large")).policy.teacher
    assert teacher is not None
    assert (teacher.path, teacher.run, teacher.dtype) == ("models/large", None, "float32")


def test_check_counts_what_is_trained_on() -> None:
    said = dict(describe(resolve(make(REMAX, "train.minibatch=8"))))
    assert said["greedy attempts"] == "8 of these, the last at each beginning; 24 are trained on"
    assert said["minibatches per epoch"] == "3 (24 sequences, up to 8 in each)"
    assert "greedy attempts" not in dict(describe(resolve(make("train.algorithm.preset=rloo"))))
    said = dict(describe(resolve(make(DISTILL, "policy.teacher={run: runs/large@3}"))))
    assert said["teacher"] == "runs/large@3, in float32"
