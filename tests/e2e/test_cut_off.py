"""Stragglers are cut off (`explore.cut_off`) in real runs: games, tasks, both schedules, whoever is how fast."""

from pathlib import Path
from typing import Any

import pytest

from ludus.config import parse_config
from ludus.policies import PolicyStore
from ludus.runs import SingleRun
from ludus.storage.checkpoints import CheckpointStore
from ludus.storage.jsonl import read_jsonl
from ludus.storage.segment_reader import SegmentReader

PLUGIN = Path(__file__).parent / "plugins" / "stragglers.py"
GROUP, BATCH = 4, 16
TASKS = """
name: stragglers
tasks: [{path: "ludus/arithmetic?digits=1&count=60", order: adaptive}]
rewards: [{kind: exact}]
workflow: {kind: custom, name: STRAGGLER}
policy: {model: {path: MODEL, lora: null}}
explore: {games_in_flight: 16, group: 4, cut_off: 0.75, deadline_s: 3600, sampling: {max_tokens: 3}}
train: {updates: 3, batch_episodes: 16, minibatch: 16, algorithm: {preset: grpo}}
telemetry: {tensorboard: false, every_s: 0}
"""
GAMES = """
name: endless
games: [endless]
topology: split
explore: {games_in_flight: 16, workers: 2, cut_off: 0.6, max_length: 300}
policy: {network: {kind: mlp, hidden: [8]}}
train: {updates: 4, batch_episodes: 16, minibatch: 64, epochs: 1}
evaluate: {against: [], final_games: 2}
telemetry: {tensorboard: false, every_s: 0}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from ludus.lm.tiny_model import make_tiny_model

    return make_tiny_model(tmp_path_factory.mktemp("model") / "tiny", layers=1, width=16, heads=2, kv_heads=1)


def run(folder: Path, text: str, *changes: tuple[str, str]) -> Path:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    status = SingleRun(parse_config(text, "run.yaml"), folder, plugins=[str(PLUGIN)]).run_to_end()
    assert status.stage == "done", status.error
    return folder


def events(run: Path, kind: str) -> list[dict[str, Any]]:
    return [event for event in read_jsonl(run / "events.jsonl") if event["event"] == kind]


def cut_tasks(run: Path) -> list[int]:
    return sorted(task for event in events(run, "cut_off") for task in event["tasks"])


def tasks_in(run: Path, log: str) -> list[int]:
    tables = [table for _, table in SegmentReader(run / log).scan()]
    return sorted(task for table in tables for task in table["task"].to_pylist() if task < 2**40)


def weights(run: Path) -> list[str]:
    store = PolicyStore(run / "policies")
    return [store.load(version).weights_hash for version in store.versions("main")]


def last(run: Path, name: str) -> float:
    return float([line[name] for line in read_jsonl(run / "metrics.jsonl") if name in line][-1])


def straggling_groups(tasks: int) -> list[int]:
    """One group of each batch: the plugin says so."""
    return [task for task in range(tasks) if task // GROUP % 4 == 1]


@pytest.fixture(scope="module")
def talked(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Path:
    """A synchronous run in which some attempts never stop talking."""
    changes = [("MODEL", str(model)), ("STRAGGLER", "talks_on"), ("cut_off", "refill: 2, cut_off")]
    return run(tmp_path_factory.mktemp("talked") / "run", TASKS, *changes)


def test_an_attempt_that_goes_on_talking_is_cut_off_with_its_whole_group(talked: Path) -> None:
    folder = talked
    stragglers = straggling_groups(3 * BATCH)
    assert cut_tasks(folder) == stragglers
    assert sorted({*tasks_in(folder, "experiences"), *stragglers}) == list(range(3 * BATCH))
    assert not {*tasks_in(folder, "experiences")} & {*stragglers}
    assert last(folder, "explore/cut_off") == len(stragglers)
    assert not events(folder, "episode_failed")
    checkpoint = CheckpointStore(folder / "checkpoints", keep=2).latest(strict=True)
    assert checkpoint is not None
    groups = checkpoint.state["tasks"]["groups"]  # nobody waits for a result of what was cut off
    assert (groups["open"], groups["settled_before"]) == ([], 3 * BATCH // GROUP)
    assert checkpoint.state["done_before"] == 3 * BATCH


def test_an_attempt_that_waits_for_ever_is_cancelled_in_the_asynchronous_schedule(tmp_path: Path, model: Path) -> None:
    """Its place is taken by others, and batches are whole; its code is told that it is over."""
    waits = f"waits, options: {{folder: {tmp_path / 'cancelled'}}}"
    changes = [("MODEL", str(model)), ("STRAGGLER", waits), ("name: str", "schedule: async\nname: str")]
    folder = run(tmp_path / "run", TASKS, *changes)
    cut, rows = {*cut_tasks(folder)}, {*tasks_in(folder, "experiences")}
    assert cut
    assert not cut & rows
    assert not {*straggling_groups(max(rows))} & rows
    assert all(len([task for task in rows if task // GROUP == group]) == GROUP for group in {t // GROUP for t in rows})
    assert last(folder, "buffer/committed") == 3 * BATCH
    cancelled = {int(path.name) for path in (tmp_path / "cancelled").iterdir()}
    assert cancelled & cut


def test_what_is_cut_off_is_not_refilled(talked: Path) -> None:
    assert last(talked, "explore/refilled") == 0


def test_its_metrics_are_explained(talked: Path, check_promises: Any) -> None:
    check_promises("cut_off", talked)


@pytest.mark.slow
def test_what_is_cut_off_in_the_synchronous_schedule_does_not_depend_on_who_is_how_fast(tmp_path: Path) -> None:
    """Very long games among others of different lengths; ties, too. Played two at a time in one process, and all
    at once in two."""
    quick = run(tmp_path / "quick", GAMES)
    slow = run(tmp_path / "slow", GAMES, ("games_in_flight: 16, workers: 2", "games_in_flight: 2, workers: 1"))
    assert cut_tasks(quick) == cut_tasks(slow)
    assert len(cut_tasks(quick)) == 4 * (BATCH - 10)
    assert weights(quick) == weights(slow)
    assert last(quick, "buffer/committed") == 4 * 10 * 2  # both seats learn
    assert len(weights(quick)) > 1


@pytest.mark.slow
def test_games_are_cut_off_in_the_asynchronous_schedule(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", GAMES, ("topology: split", "topology: split\nschedule: async"))
    cut, played = {*cut_tasks(folder)}, {*tasks_in(folder, "episodes")}
    assert cut
    assert not cut & played
    assert last(folder, "buffer/committed") == 4 * 16 * 2
