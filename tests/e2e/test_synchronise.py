"""Fixed and driven synchronisation: which version plays which batch, when versions are published, and what is reported."""

from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ludus import SingleRun, parse_config
from ludus.experience.operators import OWN, Verdict
from ludus.policies import PolicyStore
from ludus.records import Experiences
from ludus.storage.checkpoints import CheckpointStore
from ludus.storage.jsonl import read_jsonl
from ludus.storage.segment_reader import SegmentReader
from ludus.storage.tensors import tensors_hash

BATCH, EVALUATION = 8, 2**40
SMALL = """
name: small
games: [open_spiel:tic_tac_toe]
topology: split
explore: {games_in_flight: 8}
policy: {network: {kind: mlp, hidden: [8]}}
train: {steps: 500, batch_episodes: 8, minibatch: 64, epochs: 1}
league: {opponents: [{kind: mirror}, {kind: lagged}], snapshot_every: 100}
evaluate: {against: [random], games: 2, final_games: 2, every: 200}
telemetry: {tensorboard: false, every_s: 0}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a finished run shows."""

    played_with: dict[int, set[int]]
    """By batch: versions of the seats that learn."""
    trained: list[int]
    """By update: the step after it."""
    behind: list[tuple[float, float]]
    """By update: versions and updates that the batch was behind."""
    published: list[int]
    """By version: its step."""


def run(folder: Path, text: str) -> Seen:
    status = SingleRun(parse_config(text, "small.yaml"), folder).run_to_end()
    assert status.stage == "done", status.error
    played_with: dict[int, set[int]] = {}
    for row in rows_of(folder / "episodes"):
        if row["task"] < EVALUATION:
            learning = [version for version, learns in zip(row["versions"], row["learns"], strict=True) if learns]
            played_with.setdefault(row["task"] // BATCH, set()).update(learning)
    updates = [line for line in read_jsonl(folder / "metrics.jsonl") if "train/seconds" in line]
    return Seen(
        played_with=played_with,
        trained=[line["step"] for line in updates],
        behind=[(line["train/staleness"], line.get("train/updates_behind", 0.0)) for line in updates],
        published=[line["step"] for line in read_jsonl(folder / "events.jsonl") if line["event"] == "published"],
    )


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [row for _, table in SegmentReader(folder).scan() for row in table.to_pylist()]


def every(interval: int, steps: list[int]) -> list[int]:
    """After which steps a version is due: at first, after every `interval` updates, and at the end."""
    due = [0, *steps[interval - 1 :: interval]]
    return due if due[-1] == steps[-1] else [*due, steps[-1]]


@pytest.mark.parametrize(("interval", "offset"), [(1, 1), (3, 0), (2, 3)])
def test_a_batch_is_played_with_the_version_that_the_rule_names(tmp_path: Path, interval: int, offset: int) -> None:
    seen = run(tmp_path / "run", f"{SMALL}synchronise: {{interval: {interval}, offset: {offset}}}\n")
    updates = len(seen.trained)
    assert updates >= 6
    assert seen.played_with == {batch: {max(batch - offset, 0) // interval} for batch in range(updates + offset)}, (
        "version v is the one after update v * interval"
    )
    assert seen.published == every(interval, seen.trained), "snapshots and evaluations wait for a version"
    lags = [(u // interval, max(u - offset, 0) // interval, u) for u in range(updates)]
    assert seen.behind == [(newest - played, u - played * interval) for newest, played, u in lags]


def test_batches_of_which_everything_is_refused_are_replaced_by_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused, offset = {1, 2, 5}, 2

    def refuse(group: Experiences) -> Verdict:
        bad = np.flatnonzero(np.isin(group.sequences["task"] // BATCH, list(refused)))
        return Verdict(refused={int(row): ("unwanted", "as the test wants it") for row in bad})

    monkeypatch.setitem(OWN.added, "refuse", refuse)
    operator = "experience: {operators: [{kind: custom, name: refuse}]}\n"
    seen = run(tmp_path / "run", f"{SMALL}{operator}synchronise: {{offset: {offset}}}\n")

    issued: deque[int] = deque()
    expected: dict[int, set[int]] = {}
    behind = []
    for update in range(len(seen.trained)):
        while len(issued) <= offset or issued[0] in refused:
            if len(issued) > offset:
                issued.popleft()
            issued.append(len(expected))
            expected[issued[-1]] = {update}
        (version,) = expected[issued.popleft()]
        behind.append((float(update - version), float(update - version)))
    assert seen.played_with == expected
    assert seen.behind == behind
    kept = {row["task"] // BATCH for row in rows_of(tmp_path / "run" / "experiences")}
    assert kept == expected.keys() - refused


def test_a_driven_run_publishes_after_every_interval_and_never_starves(tmp_path: Path) -> None:
    """Staleness is counted in versions, so that one may be trained on until the next is there, even with none."""
    text = SMALL.replace("epochs: 1", "epochs: 1, max_staleness: 0") + "schedule: async\nsynchronise: {interval: 3}\n"
    seen = run(tmp_path / "run", text)
    assert len(seen.trained) >= 6
    assert seen.published == every(3, seen.trained)
    assert {versions for versions, _ in seen.behind} == {0.0}


def test_what_was_learnt_since_the_last_version_is_published_when_nothing_is_left_to_train_on(tmp_path: Path) -> None:
    text = SMALL.replace("steps: 500", "steps: 5000") + "buffer: {capacity: 80}\nsynchronise: {interval: 4}\n"
    assert (
        SingleRun(parse_config(text + "mode: explore\n", "small.yaml"), tmp_path / "run").run_to_end().stage == "done"
    )
    seen = run(tmp_path / "run", text + "mode: train\n")
    assert len(seen.trained) % 4, "the last update would be followed by a version anyway"
    assert [step for step in seen.published if step >= seen.trained[0]] == every(4, seen.trained)[1:]
    saved = CheckpointStore(tmp_path / "run" / "checkpoints", keep=2).latest()
    policies = PolicyStore(tmp_path / "run" / "policies")
    newest = policies.load(policies.versions("main")[-1])
    assert saved is not None
    assert tensors_hash(newest.weights) == tensors_hash(saved.tensors("weights"))
    assert newest.step == seen.trained[-1]
