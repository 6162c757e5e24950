"""Rounds over a loader: files come into a directory, enough of them make a round, and kills change nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
from psutil import Process
from safetensors.numpy import load_file

from ludus import SingleRun, parse_config
from ludus.config import CycleConfig
from ludus.orchestrator.loader_watch import LoaderWatch
from ludus.runs.cycle import Cycle
from ludus.runs.loader_rounds import LoaderRounds
from ludus.train.messages import LoaderReport

PLUGIN = str(Path(__file__).parent / "plugins" / "numbered_loaders.py")
CONFIG = """
name: rounds
games: [open_spiel:tic_tac_toe]
topology: split
mode: train
policy: {{network: {{kind: mlp, hidden: [8]}}}}
buffer: {{loader: {{kind: files, options: {{rows: 16, directory: {directory}}}}}}}
train: {{updates: 9, batch_episodes: 16, minibatch: 16}}
cycle: {{new_sequences: 10, updates: 2, growth: 1.5, export: null}}
evaluate: {{against: [], games: 0, final_games: 0, at_start: false}}
checkpoint: {{every: {every}}}
telemetry: {{tensorboard: false, every_s: 0}}
"""
ARRIVALS = (14, 6, 10)
"""14 are 4 too many, so that the second round waits for 6. The rounds have 2, 3 and 4 updates."""


class Writer:
    """Writes the next files once the version of the files before them is published."""

    def __init__(self, directory: Path, run: Path) -> None:
        self.directory, self.run, self.written = directory, run, 0
        directory.mkdir()

    def step(self) -> None:
        round_ = len(list(self.run.glob("policies/main/*"))) if self.run.exists() else 0
        due = sum(ARRIVALS[: max(round_, 1)])
        while self.written < due:
            (self.directory / f"{self.written:04d}.txt").touch()
            self.written += 1


def weights(run: Path) -> list[dict[str, bytes]]:
    versions = sorted(run.glob("policies/main/*/*.safetensors"))
    return [{name: tensor.tobytes() for name, tensor in load_file(path).items()} for path in versions]


def admissions(run: Path) -> Any:
    return json.loads(sorted(run.glob("checkpoints/*/loader.json"))[-1].read_text())["admissions"]


def train(where: Path, *, kill_trainer: bool = False, restart: bool = False) -> Path:
    run, writer = where / "run", Writer(where / "files", where / "run")
    config = parse_config(CONFIG.format(directory=where / "files", every=1 if kill_trainer else 2), "rounds.yaml")
    one = SingleRun(config, run, plugins=[PLUGIN])
    one.start()
    is_killed, is_restarted = not kill_trainer, not restart
    while not one.status().is_over:
        writer.step()
        update = one.wait(0.005).update
        if update >= 4 and not is_killed:
            for child in Process().children(recursive=True):
                if any("train.worker" in word for word in child.cmdline()):
                    child.kill()
                    is_killed = True
        if update >= 5 and not is_restarted:
            one.stop()
            assert one.wait().stage == "stopped"
            one, is_restarted = SingleRun(config, run, plugins=[PLUGIN]), True
            one.start()
    assert is_killed
    assert is_restarted
    assert one.wait().stage == "done"
    return run


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("rounds"))


def test_each_round_waits_for_new_files_and_carries_the_surplus_over(unbroken: Path) -> None:
    assert admissions(unbroken) == [[0, 14], [2, 6], [5, 10]]
    events = [json.loads(line) for line in (unbroken / "events.jsonl").read_text().splitlines()]
    assert [event["new_sequences"] for event in events if event["event"] == "round_began"] == [14, 6, 10]
    assert len(weights(unbroken)) == 4


class Around:
    """What a source of rounds asks of the parts around it."""

    in_flight, depth, unpublished, is_hurried, is_exhausted = 0, 1, 0, False, False

    def __init__(self, folder: Path, new_sequences: int) -> None:
        self.loader = LoaderWatch(folder / "refused_chunks.jsonl", lambda kind, **fields: None)
        self.loader.absorb(LoaderReport(new_sequences=new_sequences), ordered=0)

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: Any) -> None: ...
    def enter(self, activity: str) -> None: ...
    def start(self) -> None: ...
    def serve(self, timeout_s: float) -> None: ...
    def event(self, kind: str, **fields: Any) -> None: ...

    def source(self) -> LoaderRounds:
        part: Any = self
        cycle = Cycle(CycleConfig(new_sequences=10, updates=3))
        return LoaderRounds(part, part, cycle, part, part, part, part, part)


def test_a_round_does_not_wait_for_more_than_its_program_will_write(tmp_path: Path) -> None:
    around = Around(tmp_path, new_sequences=4)
    source = around.source()
    assert source.next() is None
    around.is_exhausted = True
    batch = source.next()
    assert batch is not None
    assert batch.admits == 4
    nothing = Around(tmp_path, new_sequences=0)
    nothing.is_exhausted = True
    assert nothing.source().next() is None  # other programs may write, and there is nothing to train on yet


def test_a_checkpoint_before_the_first_update_of_a_round_remembers_what_it_admits(tmp_path: Path) -> None:
    first = Around(tmp_path, new_sequences=12).source()
    batch = first.next()
    assert batch is not None
    assert batch.admits == 12
    again = Around(tmp_path, new_sequences=12).source()
    again._cycle.load_state(first._cycle.state())
    again.load_state(first.state())
    repeated = again.next()
    assert repeated is not None
    assert repeated.admits == 12
    again.commit(repeated)
    assert again.state()["loader_rounds"] == {"admitted": 12, "uncommitted": 0}


def test_rounds_grow_by_a_factor_and_have_a_bound() -> None:
    cycle = Cycle(CycleConfig(new_sequences=10, updates=60, growth=2))
    lengths = []
    for version in (1, 2, 3):
        lengths.append(cycle.updates_of_round)
        assert cycle.updates_left(10) == lengths[-1] - 10  # type: ignore[operator]
        cycle.end_round(version)
    assert lengths == [60, 120, 240]
    cycle.rounds = 10**6
    assert cycle.updates_of_round == 10**9


@pytest.mark.parametrize("how", ["kill_trainer", "restart"])
def test_a_break_in_a_round_changes_nothing(how: str, unbroken: Path, tmp_path: Path) -> None:
    run = train(tmp_path, **{how: True})
    assert admissions(run) == admissions(unbroken)
    assert weights(run) == weights(unbroken)
