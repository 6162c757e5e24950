"""A loader is pulled inside the trainer's process: no row goes through the loop, and a resume continues behind the last batch."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from psutil import Process
from safetensors.numpy import load_file

from ludus import SingleRun, parse_config
from ludus.config import RunConfig
from ludus.errors import ConfigError, TrainError
from ludus.plugins import load_plugins
from ludus.records import Experiences
from ludus.runtime import Pulse
from ludus.train.loaders import check_rows, make_loader

PLUGIN = '''
import time
from pathlib import Path
from typing import Any

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


class Waiting(Numbered):
    """Gives some rows, and then waits for a file that tells it to go on."""

    def __init__(self, *, config, seed, waiting, rows, then, until):
        super().__init__(config=config, seed=seed, rows=rows)
        self.waiting, self.then, self.until = waiting, then, Path(until)

    def next(self):
        while self.next_row >= self.then and not self.until.exists():
            self.waiting()
            time.sleep(0.001)
        return super().next()


register_loader("waiting", Waiting)
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


def waiting_config(until: Path) -> RunConfig:
    options = f"{{rows: 32, then: 64, until: {until}}}"
    text = CONFIG.replace("kind: numbered", "kind: waiting").replace("{rows: 32}", options)
    return parse_config(text, "pulled.yaml")


def test_a_run_whose_loader_waits_for_data_can_be_stopped_and_goes_on(
    unbroken: Path, plugin: str, tmp_path: Path
) -> None:
    run = SingleRun(waiting_config(tmp_path / "more"), tmp_path / "run", plugins=[plugin])
    run.start()
    end = time.monotonic() + 300
    while run.wait(0.005).update < 2:
        assert time.monotonic() < end
        assert not run.status().is_over
    run.stop()
    assert run.wait(300).steps == 64
    assert run.status().is_over
    (tmp_path / "more").touch()
    again = SingleRun(waiting_config(tmp_path / "more"), tmp_path / "run", plugins=[plugin])
    assert again.run_to_end().stage == "done"
    assert weights(tmp_path / "run") == weights(unbroken)


def test_a_loader_that_waits_shows_signs_of_life(plugin: str, tmp_path: Path) -> None:
    load_plugins([plugin])
    config, pulse, ticks = waiting_config(tmp_path / "more"), Pulse(), []

    def sign() -> None:
        pulse.tick()
        ticks.append(pulse.ticks)
        if len(ticks) == 3:
            (tmp_path / "more").touch()

    loader = make_loader(config, sign)
    assert loader is not None
    for _ in range(3):
        assert len(loader.next()) == 32
    assert ticks == [1, 2, 3]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            {"observation": np.zeros((4, 18), np.float32)},
            r"observation is \[18\], open_spiel:tic_tac_toe has \[3, 3, 3\]",
        ),
        ({"legal": np.ones((4, 7), np.bool_)}, r"legal is \[7\], open_spiel:tic_tac_toe has \[9\]"),
        ({"action": np.array([0, 5, 13, 2], np.int32)}, "actions are 0 to 13, open_spiel:tic_tac_toe has 0 to 8"),
        ({"reward": np.array([0, np.nan, 0, 0], np.float32)}, "reward has numbers that are not finite"),
    ],
)
def test_rows_that_do_not_fit_the_game_are_refused_in_a_sentence(change: dict[str, Any], complaint: str) -> None:
    steps = {
        "action": np.zeros(4, np.int32), "mask": np.ones(4, np.bool_), "logp": np.zeros(4, np.float32),
        "value": np.zeros(4, np.float32), "reward": np.zeros(4, np.float32), "legal": np.ones((4, 9), np.bool_),
        "observation": np.zeros((4, 3, 3, 3), np.float32),
    }  # fmt: skip
    shape = {"observation_shape": [3, 3, 3], "actions": 9, "games": ["open_spiel:tic_tac_toe"]}
    sound = Experiences(sequences={}, offsets=np.arange(5), steps=steps)
    check_rows(sound, shape)
    with pytest.raises(TrainError, match=complaint):
        check_rows(sound.replace(steps=change), shape)
