"""A fused learner in a worker of its own learns what it learns in the loop's process, bit for bit, however often it is lost."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ludus import SingleRun, parse_config
from ludus.orchestrator.fused import fused
from ludus.policies import PolicyStore
from ludus.storage.jsonl import read_jsonl

pytestmark = pytest.mark.slow

TEXT = """
name: fused
games: [open_spiel:kuhn_poker]
topology: fused
policy: {network: {kind: mlp, hidden: [8]}}
explore: {games_in_flight: 32}
train: {steps: 12_000, batch_steps: 512, minibatch: 512, epochs: 1, swa: {most: 4}}
checkpoint: {every: 4}
league: {opponents: [{kind: mirror, weight: 2}, {kind: pfsp}], snapshot_every: 3000}
evaluate: {against: [random], games: 2, every: 3000, final_games: 2}
telemetry: {tensorboard: false, every_s: 0}
"""


class Killer:
    """A sink that kills the learner after some updates: between two checkpoints, and right after one."""

    def __init__(self, steps: tuple[int, ...]) -> None:
        self.run: SingleRun | None = None
        self._steps = list(steps)

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        if self._steps and step >= self._steps[0]:
            self._steps.pop(0)
            assert self.run is not None
            assert self.run._context is not None
            os.kill(self.run._context.supervisor.process("learner").pid, signal.SIGKILL)  # type: ignore[attr-defined]

    def event(self, kind: str, fields: Mapping[str, Any]) -> None:
        pass

    def close(self) -> None:
        pass


def learnt(run: Path) -> dict[str, str]:
    """The hash of every version."""
    store = PolicyStore(run / "policies")
    return {str(ref): store.load(ref).weights_hash for ref in store.versions("main")}


def measured(run: Path) -> list[dict[str, Any]]:
    """What each update did, without times."""
    lines = [line for line in read_jsonl(run / "metrics.jsonl") if "train/learning_rate" in line]
    assert len(lines) > 20
    return [{name: x for name, x in line.items() if name.startswith(("train/", "explore/", "step"))} for line in lines]


def test_a_lost_learner_begins_with_the_newest_checkpoint_and_comes_to_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = parse_config(TEXT, "run.yaml")
    assert SingleRun(config, tmp_path / "whole").run_to_end().stage == "done"
    monkeypatch.setattr(fused, "is_hosted", lambda config: True)
    killer = Killer((1000, 3600, 7000))
    killer.run = SingleRun(config, tmp_path / "broken", sinks=[killer])
    assert killer.run.run_to_end().stage == "done"

    lost = [event for event in read_jsonl(tmp_path / "broken" / "events.jsonl") if event["event"] == "worker_lost"]
    assert [event["worker"] for event in lost] == ["learner"] * 3
    assert learnt(tmp_path / "broken") == learnt(tmp_path / "whole")
    assert measured(tmp_path / "broken") == measured(tmp_path / "whole")
    assert not list((tmp_path / "broken" / "checkpoints").glob(".tmp-*"))
