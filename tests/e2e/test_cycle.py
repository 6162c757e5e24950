"""Runs that wait for data: an empty directory first, then rounds of training, a version and an export after each."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "sources"))

from feeding import SETTINGS, FakeExplorer, rows_in_log

from ludus import SingleRun, parse_config
from ludus.config import CycleConfig
from ludus.policies import PolicyStore
from ludus.records import PolicyRef
from ludus.runs.cycle import Cycle
from ludus.runs.driver import CycleStatus
from ludus.storage.jsonl import read_jsonl
from ludus.storage.segment_reader import SegmentReader

FED = (
    SETTINGS
    + """
name: fed
buffer: {feeds: [FEED]}
cycle: {new_sequences: 20, updates: 3, keep_exports: 2}
train: {steps: 1000000, batch_episodes: 4, minibatch: 8, epochs: 1}
"""
)
EXPLORER = """
name: explorer
games: [open_spiel:tic_tac_toe]
topology: split
mode: explore
policy: {network: {kind: mlp, hidden: [8]}}
explore: {games_in_flight: 8}
buffer: {capacity: 100000}
train: {steps: 1000000, batch_episodes: 8}
evaluate: {against: [], games: 0, final_games: 0}
telemetry: {tensorboard: false}
"""
FOLLOWER = """
name: follower
games: [open_spiel:tic_tac_toe]
topology: split
mode: train
policy: {network: {kind: mlp, hidden: [8]}}
buffer: {feeds: [FEED], capacity: 400}
cycle: {new_sequences: 60, updates: 2}
train: {steps: 250, batch_episodes: 8, minibatch: 16, epochs: 1}
evaluate: {against: [random], games: 2, every: 100, final_games: 2}
telemetry: {tensorboard: false, every_s: 0}
"""
BOTH = """
name: both
games: [open_spiel:tic_tac_toe]
topology: split
schedule: async
policy: {network: {kind: mlp, hidden: [8]}}
explore: {games_in_flight: 8}
cycle: {new_sequences: 100, updates: 4, export: EXPORTS}
train: {steps: 450, batch_episodes: 8, minibatch: 16, epochs: 1}
evaluate: {against: [], games: 0, final_games: 0}
telemetry: {tensorboard: false, every_s: 0}
"""
DEADLINE_S = 120.0


def wait_for(loop: SingleRun, holds: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not holds():
        status = loop.wait(0.02)
        assert not status.is_over, status
        assert time.monotonic() < end, (status, loop.schedule())


def rounds(run_dir: Path) -> list[int]:
    """How much had come in when each round began."""
    return [event["new_sequences"] for event in read_jsonl(run_dir / "events.jsonl") if event["event"] == "round_began"]


@pytest.mark.parametrize(
    ("came_in", "waited_for"),
    [
        ([2000, 2000], [2000, 2000]),
        ([2300, 1700, 2000], [1700, 2000, 2000]),
        ([9000, 1000, 1000], [1000, 2000, 3000]),
        ([500], [3500]),
    ],
)
def test_surplus_is_carried_over_and_half_is_always_waited_for(came_in: list[int], waited_for: list[int]) -> None:
    cycle, total, found = Cycle(CycleConfig(new_sequences=2000, updates=3)), 0, []
    for count in came_in:
        total += count
        cycle.see(total)
        assert cycle.begin_round() == count
        found.append(cycle.status(updates=0).data_to_wait)
        cycle.end_round(1)
    assert found == waited_for


def test_the_state_of_a_cycle_goes_through_a_checkpoint() -> None:
    now = [0.0]
    cycle = Cycle(CycleConfig(new_sequences=10, updates=3), lambda: now[0])
    cycle.see(14)
    now[0] = 5.0
    cycle.begin_round()
    with cycle.training():
        now[0] = 7.0
    cycle.see(17)
    other = Cycle(CycleConfig(new_sequences=10, updates=3), lambda: now[0])
    other.load_state(cycle.state())
    other.see(17)
    assert other.status(updates=2) == cycle.status(updates=2)
    assert other.status(updates=2) == CycleStatus(
        new_data=3, data_to_wait=6, updates=2, updates_to_do=3, training_s=2.0, cycle_s=7.0
    )
    other.end_round(4)
    now[0] = 8.0
    assert other.status(updates=0) == CycleStatus(
        cycles=1,
        new_data=3,
        data_to_wait=6,
        updates_to_do=3,
        previous_training_s=2.0,
        cycle_s=1.0,
        previous_cycle_s=7.0,
    )


def test_a_run_waits_on_an_empty_directory_and_trains_in_rounds_when_data_comes(tmp_path: Path) -> None:
    run_dir, feed = tmp_path / "run", tmp_path / "feed"
    loop = SingleRun(parse_config(FED.replace("FEED", str(feed)), "fed.yaml"), run_dir)
    loop.start()
    wait_for(loop, lambda: loop.status().stage == "waiting for data")
    loop.pause()
    wait_for(loop, lambda: loop.status().stage == "paused")
    loop.resume()
    wait_for(loop, lambda: loop.status().stage == "waiting for data")
    assert loop.checkpoint(10.0).update == 0

    explorer = FakeExplorer(feed)
    explorer.play(10)
    wait_for(loop, lambda: loop.schedule().new_data == 10)
    assert (loop.schedule().data_to_wait, loop.schedule().cycles) == (20, 0)
    explorer.play(15)  # 5 too many
    wait_for(loop, lambda: loop.schedule().cycles == 1)
    assert (loop.schedule().data_to_wait, loop.schedule().new_data) == (15, 0)
    explorer.play(40)  # 25 too many, and the least that is waited for is 10
    wait_for(loop, lambda: loop.schedule().cycles == 2)
    assert loop.schedule().data_to_wait == 10
    assert loop.schedule().previous_training_s > 0

    for number in (3, 4, 5):  # 65 sequences came, each round uses 12
        wait_for(loop, lambda: loop.status().stage == "waiting for data")
        loop.train_now()
        wait_for(loop, lambda number=number: loop.schedule().cycles == number)  # type: ignore[misc]
    loop.train_now()  # 5 are left: for one of the 3 updates
    wait_for(loop, lambda: loop.schedule().updates == 1 and loop.status().stage == "waiting for data")
    assert loop.status().update == 5 * 3 + 1
    explorer.play(8)
    wait_for(loop, lambda: loop.schedule().cycles == 6)
    wait_for(loop, lambda: loop.status().stage == "waiting for data")
    loop.stop()
    status = loop.wait(30)
    explorer.close()
    assert (status.stage, status.update, status.version) == ("stopped", 18, 6)
    assert rounds(run_dir) == [25, 40, 0, 0, 0, 0]
    rows = rows_in_log(run_dir)
    assert len(rows) == len(set(rows)) == 73
    assert sorted(path.name for path in (run_dir / "exports").iterdir()) == ["main-00000005", "main-00000006"]
    exported = (run_dir / "exports" / "main-00000006" / "weights.safetensors").read_bytes()
    assert exported == (run_dir / "policies" / "main" / "00000006" / "weights.safetensors").read_bytes()


@pytest.mark.slow
def test_a_trainer_follows_an_explorer_that_is_alive(tmp_path: Path, check_promises: Any) -> None:
    follower = SingleRun(
        parse_config(FOLLOWER.replace("FEED", str(tmp_path / "explorer")), "follower.yaml"), tmp_path / "run"
    )
    follower.start()
    explorer = SingleRun(parse_config(EXPLORER, "explorer.yaml"), tmp_path / "explorer")
    explorer.start()
    status = follower.wait(DEADLINE_S)
    explorer.stop()
    assert explorer.wait(DEADLINE_S).stage == "stopped"
    assert status.stage == "done", status
    began = rounds(tmp_path / "run")
    assert len(began) == status.version >= 2
    assert min(began) >= 30
    assert began[0] >= 60
    played = {(row["episode"], row["seat"]) for row in _rows(tmp_path / "explorer")}
    taken = [(row["episode"].removeprefix("0-"), row["seat"]) for row in _rows(tmp_path / "run")]
    assert len(taken) == len(set(taken)) == sum(began)
    assert set(taken) <= played
    assert {row["own_version"] for row in _rows(tmp_path / "run")} == {0}, "both began with the same weights"
    assert 0 <= status.metrics["evaluate/random/score"] <= 1
    check_promises("fed", tmp_path / "run")


def test_an_asynchronous_run_waits_for_what_its_own_explorers_play(tmp_path: Path) -> None:
    loop = SingleRun(parse_config(BOTH.replace("EXPORTS", str(tmp_path / "out")), "both.yaml"), tmp_path / "run")
    status = loop.run_to_end()
    assert status.stage == "done"
    began = rounds(tmp_path / "run")
    assert len(began) == status.version == loop.schedule().cycles >= 2
    assert began[0] >= 100
    assert min(began) >= 50
    assert status.update - 1 <= 4 * status.version  # the end is an update of its own
    store = PolicyStore(tmp_path / "run" / "policies")
    ref = PolicyRef.parse(f"main@{status.version}")
    assert (tmp_path / "out" / f"main-{status.version:08d}" / "policy.json").read_bytes() == (
        store.path(ref) / "policy.json"
    ).read_bytes()


def test_without_a_cycle_a_run_trains_on_all_that_its_feeds_have_and_waits_for_more(tmp_path: Path) -> None:
    text = FED.replace("cycle:", "synchronise: {interval: 3} #").replace(
        "[FEED]", f"[{tmp_path / 'feed'}], capacity: 8"
    )
    explorer = FakeExplorer(tmp_path / "feed")
    for count in (3, 5, 9, 7):  # one of them is larger than the window
        explorer.play(count)
    loop = SingleRun(parse_config(text, "fed.yaml"), tmp_path / "run")
    loop.start()
    wait_for(loop, lambda: loop.status().update == 5 and loop.status().stage == "waiting for data")
    explorer.play(4)
    wait_for(loop, lambda: loop.status().update == 6)
    loop.stop()
    metrics = loop.wait(30).metrics
    explorer.close()
    assert len(set(rows_in_log(tmp_path / "run"))) == 28
    assert metrics["buffer/evicted_unused"] == 1, "the large segment had to come in"
    assert metrics["buffer/committed"] == 24
    assert not rounds(tmp_path / "run")


def test_a_run_without_a_cycle_is_one_round(tmp_path: Path) -> None:
    status = SingleRun(parse_config(EXPLORER, "explorer.yaml"), tmp_path / "run").schedule()
    assert (status.cycles, status.data_to_wait, status.updates_to_do, status.training_s) == (0, 0, 0, 0.0)
    cycle = Cycle(None)
    cycle.end_round(1)
    assert (cycle.is_training, cycle.updates_left(5), cycle.status(updates=5).updates) == (True, None, 5)


def _rows(run_dir: Path) -> list[dict[str, object]]:
    names = ["episode", "seat", "own_version"]
    reader = SegmentReader(run_dir / "experiences")
    return [
        row
        for _, table in reader.scan()
        for row in table.select([name for name in names if name in table.column_names]).to_pylist()
    ]
