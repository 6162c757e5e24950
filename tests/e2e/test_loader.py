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

PLUGIN = str(Path(__file__).parent / "plugins" / "numbered_loaders.py")
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
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("pulled") / "run"
    assert SingleRun(parse_config(CONFIG, "pulled.yaml"), run, plugins=[PLUGIN]).run_to_end().stage == "done"
    return run


def weights(run: Path) -> dict[str, bytes]:
    newest = sorted(run.glob("policies/main/*/*.safetensors"))[-1]
    return {name: tensor.tobytes() for name, tensor in load_file(newest).items()}


def test_the_trainer_pulls_its_batches_and_nothing_goes_through_the_loop(unbroken: Path) -> None:
    assert not list((unbroken / "experiences").glob("*.arrow"))
    newest = sorted(unbroken.glob("checkpoints/*/loader.json"))[-1]
    assert json.loads(newest.read_text()) == {"next_row": 320}


def test_a_resume_continues_behind_the_last_batch(unbroken: Path, tmp_path: Path) -> None:
    config = parse_config(CONFIG, "pulled.yaml")
    first = SingleRun(config, tmp_path / "run", plugins=[PLUGIN])
    first.until = 96
    assert first.run_to_end().steps == 96
    assert SingleRun(config, tmp_path / "run", plugins=[PLUGIN]).run_to_end().stage == "done"
    assert weights(tmp_path / "run") == weights(unbroken)


def test_a_killed_trainer_pulls_the_same_batches_again(unbroken: Path, tmp_path: Path) -> None:
    run = SingleRun(parse_config(CONFIG, "pulled.yaml"), tmp_path / "run", plugins=[PLUGIN])
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
    tmp_path: Path, old: str, new: str, expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        SingleRun(parse_config(CONFIG.replace(old, new), "pulled.yaml"), tmp_path / "run", plugins=[PLUGIN])
    assert not (tmp_path / "run").exists()


def waiting_config(until: Path) -> RunConfig:
    options = f"{{rows: 32, then: 64, until: {until}}}"
    text = CONFIG.replace("kind: numbered", "kind: waiting").replace("{rows: 32}", options)
    return parse_config(text, "pulled.yaml")


def test_a_run_whose_loader_waits_for_data_can_be_stopped_and_goes_on(unbroken: Path, tmp_path: Path) -> None:
    run = SingleRun(waiting_config(tmp_path / "more"), tmp_path / "run", plugins=[PLUGIN])
    run.start()
    end = time.monotonic() + 300
    while run.wait(0.005).update < 2:
        assert time.monotonic() < end
        assert not run.status().is_over
    run.stop()
    assert run.wait(300).steps == 64
    assert run.status().is_over
    (tmp_path / "more").touch()
    again = SingleRun(waiting_config(tmp_path / "more"), tmp_path / "run", plugins=[PLUGIN])
    assert again.run_to_end().stage == "done"
    assert weights(tmp_path / "run") == weights(unbroken)


def test_a_loader_that_waits_shows_signs_of_life(tmp_path: Path) -> None:
    load_plugins([PLUGIN])
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
        ({"reward": np.array([0, np.nan, 0, 0], np.float32)}, "reward is nan in row 1 of the batch"),
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
