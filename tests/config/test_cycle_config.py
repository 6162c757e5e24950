"""`cycle` and `buffer.feeds`: how they are written, what they cannot be together with, and what `ludus check` says."""

from __future__ import annotations

from typing import Any

import pytest

from ludus.config import RunConfig, build_config, describe, dump_config, parse_config, resolve
from ludus.config.loading.resume import check_resumable
from ludus.errors import ConfigError

FEEDS = "buffer.feeds=[runs/a]"
CYCLE = "cycle={new_sequences: 200, updates: 10}"
SPLIT: dict[str, Any] = {
    "name": "x",
    "games": ["open_spiel:tic_tac_toe"],
    "train": {"batch_episodes": 8},
    "league": {"opponents": [{"kind": "mirror"}]},
}
TRAIN = ("mode=train", FEEDS, CYCLE)


def make(*overrides: str) -> RunConfig:
    return resolve(build_config(SPLIT, overrides))


def test_a_directory_alone_is_a_feed_and_a_kind_can_be_left_out() -> None:
    text = "name: x\ngames: [open_spiel:tic_tac_toe]\nmode: train\nbuffer: {feeds: [runs/a, {run: runs/b}, {kind: run, run: runs/c}]}\n"
    config = resolve(parse_config(text, "x.yaml"))
    assert [(feed.kind, feed.run) for feed in config.buffer.feeds] == [("run", f"runs/{name}") for name in "abc"]
    assert parse_config(dump_config(config), "config.yaml") == config


def test_a_cycle_makes_the_topology_split_and_the_window_large_enough() -> None:
    config = make("games=[pgx:tic_tac_toe]", *TRAIN)
    assert (config.topology, config.buffer.capacity, config.publish_interval) == ("split", 800, 10)
    assert make("mode=train", FEEDS).buffer.capacity == 128


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (
            ["topology=fused", "games=[pgx:tic_tac_toe]", CYCLE, "schedule=async"],
            "cycle: waiting for data needs a trainer",
        ),
        (["topology=fused", "games=[pgx:tic_tac_toe]", FEEDS], "buffer.feeds: what other runs play is trained on by a"),
        ([FEEDS], "buffer.feeds: are for mode: train, and mode is both; write mode: train, or leave them out"),
        (
            ["mode=train", "buffer.feeds=[runs/a, runs/b, runs/a/]"],
            "buffer.feeds.2: runs/a is already there as buffer.feeds.0",
        ),
        (
            ["mode=train", FEEDS, "experience.operators=[zero_variance]"],
            "experience.operators: has no effect: sequences of",
        ),
        ([CYCLE], "cycle: schedule: sync trains on each batch when it has been played"),
        (["mode=explore", CYCLE], "cycle: is for runs that train, and mode is explore; leave it out"),
        (
            ["mode=train", CYCLE],
            "cycle: waits for new data, and none can come with mode: train alone; write buffer.feeds",
        ),
        (
            [*TRAIN, "synchronise.interval=5"],
            "synchronise.interval: has no effect: with cycle, a version is published after",
        ),
        ([*TRAIN, "buffer.capacity=150"], "cycle.new_sequences: 200 are more than buffer.capacity (150)"),
        (
            [*TRAIN, "cycle.updates=13"],
            "cycle.updates: 13 updates need 208 sequences (batches of 16), but each round gets 200 new ones, used 1 times; "
            "write cycle.updates: 12, or a higher buffer.reuse",
        ),
        ([*TRAIN, "population={oracle: learned}"], "cycle: is for one policy that learns, and there is a population"),
        (
            ["population={}", "topology=tabular", CYCLE],
            "cycle: population.oracle is exact, and there is no data to wait for",
        ),
        (["mode=train", FEEDS, "cycle={updates: 3}"], "cycle.new_sequences: missing; expected"),
        (["mode=train", FEEDS, "cycle={new_sequences: 0, updates: 3}"], "cycle.new_sequences: expected"),
        ([*TRAIN, "cycle.growth=2"], "cycle.growth: rounds over sequences all have as many updates"),
        (["mode=train", "buffer.feeds=[{kind: chunks, run: x}]"], "buffer.feeds.0.kind: expected run"),
    ],
)
def test_what_cannot_hold_is_refused_with_what_to_write(overrides: list[str], problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make(*overrides)
    lines = [line.removeprefix("command line  ") for line in refused.value.problems]
    assert any(line.startswith(problem) for line in lines), refused.value.problems


def test_more_uses_of_each_sequence_allow_more_updates() -> None:
    assert make(*TRAIN, "cycle.updates=25", "buffer.reuse=2").cycle is not None


def test_the_check_says_what_is_waited_for() -> None:
    rows = dict(describe(make(*TRAIN, "cycle.export=null")))
    assert rows["fed by"] == "runs/a"
    assert rows["buffer"] == "800 sequences of any age, fifo, used at most 1 times"
    assert rows["cycle"] == "wait for 200 new sequences, train 10 updates, publish a version"
    assert rows["carried over"].endswith("waits for 100 at least")
    assert dict(describe(make(*TRAIN)))["cycle"].endswith("export it to exports (10 kept)")
    both = dict(describe(make("schedule=async", CYCLE)))
    assert both["synchronisation"].startswith("driven: a version after every 10 updates")


def test_a_run_may_go_on_with_other_feeds_and_another_cycle() -> None:
    saved = dump_config(make(*TRAIN))
    for change in (
        ["mode=train", "buffer.feeds=[/disk/b, runs/a]", CYCLE],
        ["mode=train", FEEDS, "cycle={new_sequences: 400, updates: 5, export: null}"],
        ["mode=train", FEEDS],
    ):
        check_resumable(saved, make(*change))
    with pytest.raises(ConfigError, match=r"buffer\.reuse"):
        check_resumable(saved, make(*TRAIN, "buffer.reuse=2"))
