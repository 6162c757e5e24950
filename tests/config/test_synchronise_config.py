"""`synchronise`: what follows from it, and what it is refused with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ludus.config import RunConfig, build_config, describe, resolve
from ludus.config.sections.synchronise import SynchroniseConfig
from ludus.errors import ConfigError

BOARD = "open_spiel:tic_tac_toe"


def make(*overrides: str, game: str = BOARD) -> RunConfig:
    return resolve(build_config({"name": "x", "games": [game]}, overrides))


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (
            ["games.0=pgx:connect_four", "topology=fused", "synchronise.interval=2"],
            "synchronise: explorers with versions of their own are separate processes, but topology is fused; "
            "write topology: split, or synchronise: {interval: 1, offset: 0}",
        ),
        (
            ["schedule=async", "synchronise.offset=1"],
            "synchronise.offset: 1 is for schedule: sync; with schedule: async, train.max_staleness says how far play "
            "is ahead; write synchronise.offset: 0, or schedule: sync",
        ),
        (
            ["synchronise.offset=2", "train.batch_episodes=10", "buffer.capacity=59"],
            "synchronise.offset: 3 batches (train.batch_episodes: 10, 2 seats each) wait at once, more than "
            "buffer.capacity (59); write at least 60 there",
        ),
        (
            ["schedule=async", "synchronise.interval=2", "buffer.reuse=7"],
            "buffer.reuse: 7 uses need experience 3 versions old, but train.max_staleness is 2; "
            "write at least that there",
        ),
        (
            ["schedule=async", "synchronise.interval=2", "train.batch_episodes=10", "buffer.min_size=61"],
            "buffer.min_size: only 60 episodes are played before the first update (train.max_staleness: 2); "
            "write at most that",
        ),
    ],
)
def test_contradictions_are_refused_with_both_key_paths(overrides: list[str], line: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make(*overrides)
    assert refused.value.problems == (line,)


def test_an_offset_without_play_to_learn_from_is_refused() -> None:
    values = {
        "name": "x",
        "tasks": ["ludus/arithmetic?digits=1&count=9"],
        "rewards": [{"kind": "exact"}],
        "policy": {"model": {"path": "m"}},
        "buffer": {"expert": {"sources": [{"path": "x.jsonl"}]}},
        "train": {"algorithm": {"preset": "sft"}},
        "synchronise": {"offset": 1},
    }
    with pytest.raises(ConfigError, match=r"synchronise\.offset: has no effect: nothing in train\.algorithm learns"):
        resolve(build_config(values))


def test_a_pgx_game_that_is_played_ahead_is_split() -> None:
    assert make(game="pgx:connect_four").topology == "fused"
    config = make("synchronise.offset=1", game="pgx:connect_four")
    assert config.topology == "split"
    assert resolve(config) == config


def test_checkpoints_follow_the_versions_and_the_buffer_holds_what_is_played_ahead() -> None:
    config = make("synchronise={interval: 5, offset: 20}", "train.batch_episodes=10")
    assert config.checkpoint.every == 5
    assert config.buffer.capacity == 21 * 10 * 2
    assert make("synchronise.interval=5", "checkpoint.every=2").checkpoint.every == 2


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        ([], "fixed: a version after every update, and the next batch is played with it"),
        (
            ["synchronise.offset=1"],
            "fixed: a version after every update, 1 batch played ahead; at most 1 version and 1 update behind",
        ),
        (
            ["synchronise={interval: 3, offset: 4}"],
            "fixed: a version after every 3 updates, 4 batches played ahead; at most 2 versions and 6 updates behind",
        ),
        (["synchronise.interval=4"], "fixed: a version after every 4 updates; at most 0 versions and 3 updates behind"),
        (
            ["schedule=async", "synchronise.interval=3"],
            "driven: a version after every 3 updates, played with as soon as it is there",
        ),
    ],
)
def test_check_says_who_waits_for_whom_and_how_far_behind_play_is(overrides: list[str], text: str) -> None:
    assert dict(describe(make(*overrides)))["synchronisation"] == text


@given(st.integers(1, 9), st.integers(0, 30))
def test_the_lag_is_the_largest_that_the_rule_allows(interval: int, offset: int) -> None:
    pace = SynchroniseConfig(interval=interval, offset=offset)
    played = [max(batch - offset, 0) // interval for batch in range(200)]
    assert pace.versions_behind == max(batch // interval - version for batch, version in enumerate(played))
    assert pace.updates_behind == max(batch - version * interval for batch, version in enumerate(played))
