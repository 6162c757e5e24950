"""A loader is pulled inside the trainer's process: no row goes through the loop, and a resume continues behind the last batch."""

import json
from pathlib import Path

import pytest
from psutil import Process
from safetensors.numpy import load_file

from ludus import SingleRun, parse_config
from ludus.errors import ConfigError

PLUGIN = '''
import numpy as np

from ludus import register_loader
from ludus.records import Experiences


class Numbered:
    """Games of tic-tac-toe that follow from their numbers."""

    def __init__(self, *, config, seed, rows):
        self.rows, self.seed, self.next_row = rows, seed, 0

    def next(self):
        first, self.next_row = self.next_row, self.next_row + self.rows
        rng, n = np.random.default_rng([self.seed, first]), self.rows
        final = rng.choice([-1.0, 1.0], n).astype(np.float32)
        return Experiences(
            sequences={
                "episode": np.array([f"row-{first + i}" for i in range(n)], object),
                "task": np.arange(first, first + n), "attempt": np.zeros(n, np.int64),
                "game": np.full(n, "open_spiel:tic_tac_toe", object), "seat": np.zeros(n, np.int64),
                "policy": np.full(n, "main", object), "group": np.full(n, "", object),
                "final_reward": final, "shaped_reward": final.copy(), "truncated": np.zeros(n, np.bool_),
            },
            offsets=np.arange(n + 1),
            steps={
                "action": rng.integers(0, 9, n).astype(np.int32), "mask": np.ones(n, np.bool_),
                "logp": np.full(n, -np.log(9.0), np.float32), "value": np.zeros(n, np.float32), "reward": final.copy(),
                "version": np.zeros(n, np.int32), "legal": np.ones((n, 9), np.bool_),
                "observation": rng.integers(0, 2, (n, 3, 3, 3)).astype(np.float32),
            },
        )

    def state(self):
        return {"next_row": self.next_row}

    def load_state(self, state):
        self.next_row = state["next_row"]

    def close(self):
        pass


register_loader("numbered", Numbered)
'''
CONFIG = """
name: pulled
games: [open_spiel:tic_tac_toe]
topology: split
mode: train
policy: {network: {kind: mlp, hidden: [8]}}
buffer: {loader: {kind: numbered, options: {rows: 32}}}
train: {steps: 320, batch_episodes: 32, minibatch: 32}
evaluate: {against: [], games: 0, final_games: 0, at_start: false}
checkpoint: {every: 1}
telemetry: {tensorboard: false, every_s: 0}
"""


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("plugin") / "numbered_loader.py"
    path.write_text(PLUGIN)
    return str(path)


@pytest.fixture(scope="module")
def unbroken(plugin: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("pulled") / "run"
    assert SingleRun(parse_config(CONFIG, "pulled.yaml"), run, plugins=[plugin]).run_to_end().stage == "done"
    return run


def weights(run: Path) -> dict[str, bytes]:
    newest = sorted(run.glob("policies/main/*/*.safetensors"))[-1]
    return {name: tensor.tobytes() for name, tensor in load_file(newest).items()}


def test_the_trainer_pulls_its_batches_and_nothing_goes_through_the_loop(unbroken: Path) -> None:
    assert not list((unbroken / "experiences").glob("*.arrow"))
    newest = sorted(unbroken.glob("checkpoints/*/loader.json"))[-1]
    assert json.loads(newest.read_text()) == {"next_row": 320}


def test_a_resume_continues_behind_the_last_batch(unbroken: Path, plugin: str, tmp_path: Path) -> None:
    config = parse_config(CONFIG, "pulled.yaml")
    first = SingleRun(config, tmp_path / "run", plugins=[plugin])
    first.until = 96
    assert first.run_to_end().steps == 96
    assert SingleRun(config, tmp_path / "run", plugins=[plugin]).run_to_end().stage == "done"
    assert weights(tmp_path / "run") == weights(unbroken)


def test_a_killed_trainer_pulls_the_same_batches_again(unbroken: Path, plugin: str, tmp_path: Path) -> None:
    run = SingleRun(parse_config(CONFIG, "pulled.yaml"), tmp_path / "run", plugins=[plugin])
    run.start()
    while run.wait(0.005).update < 3 and not run.status().is_over:
        pass
    trainers = [
        child for child in Process().children(recursive=True) if any("train.worker" in word for word in child.cmdline())
    ]
    assert trainers
    for trainer in trainers:
        trainer.kill()
    assert run.wait().stage == "done"
    assert weights(tmp_path / "run") == weights(unbroken)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("numbered", "nummbered", "no such loader; did you mean numbered"),
        ("{rows: 32}", "{rows: 32, colour: red}", "buffer.loader: numbered: .*colour"),
        ("mode: train", "mode: both", "buffer.loader: .*write mode: train"),
    ],
)
def test_what_is_wrong_with_a_loader_is_said_before_the_run_begins(
    plugin: str, tmp_path: Path, old: str, new: str, expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        SingleRun(parse_config(CONFIG.replace(old, new), "pulled.yaml"), tmp_path / "run", plugins=[plugin])
    assert not (tmp_path / "run").exists()
