"""Weights & Biases with the real package: what it is sent is what `metrics.jsonl` has, under one id per run."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from wandb_server import WandbServer, serving

from ludus import SingleRun, parse_config
from ludus.config import TelemetryConfig, WandbConfig
from ludus.errors import ConfigError
from ludus.storage.jsonl import read_jsonl
from ludus.storage.run_directory import RunDirectory
from ludus.telemetry import Telemetry, WandbSink
from ludus.telemetry.wandb_sink import run_id

TABULAR = """
name: kuhn
games: [open_spiel:kuhn_poker]
population: {stop: {generations: 3}}
telemetry: {tensorboard: false, wandb: {project: games, mode: offline, tags: [small], group: poker}}
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WandbServer]:
    with serving("answers") as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
        yield server


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = RunDirectory(tmp_path / "run")
    run.create("name: x\n")
    run.new_attempt()
    return run


def log_steps(run: RunDirectory, mode: Any, steps: range, values: dict[str, Any]) -> Telemetry:
    telemetry = Telemetry(run, "x")
    telemetry.attach(WandbSink(run, WandbConfig(mode=mode), run_name="x", values=values))
    for step in steps:
        telemetry.metrics(step, {"train/loss": 1.0 / (step + 1)})
    telemetry.close()
    assert telemetry.sinks_status()[0].error == ""
    return telemetry


def sync(run: RunDirectory) -> None:
    """Upload what is there with wandb's own command."""
    for folder in sorted(run.wandb.glob("offline-run-*")):
        subprocess.run([sys.executable, "-m", "wandb", "sync", folder], check=True, capture_output=True, cwd=run.path)


def test_an_offline_run_is_uploaded_later_with_every_line_and_its_config(
    tmp_path: Path, server: WandbServer, capfd: pytest.CaptureFixture[str]
) -> None:
    loop = SingleRun(parse_config(TABULAR, "kuhn.yaml"), tmp_path / "run")
    assert loop.run_to_end().stage == "done"
    assert capfd.readouterr().out == ""
    assert server.history(run_id(loop.run)) == []
    sync(loop.run)
    uploaded = [
        {name: value for name, value in line.items() if not name.startswith("_")}
        for line in server.history(run_id(loop.run))
    ]
    written = [{k: v for k, v in line.items() if k != "time"} for line in read_jsonl(loop.run.metrics)]
    assert uploaded == written
    assert {"step", "psro/nash_conv"} <= set(written[-1])
    sent = server.upserts[0]
    assert (sent["project"], sent["displayName"], sent["groupName"], sent["tags"]) == (
        "games", "kuhn run", "poker", ["small"],
    )  # fmt: skip
    config = json.loads(sent["config"])
    assert config["games"]["value"][0]["key"] == "open_spiel:kuhn_poker"
    (last,) = [line for line in read_jsonl(loop.run.events) if line["event"] == "sinks"]
    assert last["sinks"] == [{"name": "wandb", "queued": 0, "dropped": 0, "error": "", "is_off": False}]


def test_a_resumed_run_goes_on_as_the_same_run(run: RunDirectory, server: WandbServer) -> None:
    log_steps(run, "online", range(5), {"seed": 1})
    log_steps(run, "offline", range(5, 9), {"seed": 2})
    sync(run)
    assert [line["step"] for line in server.history(run_id(run))] == list(range(9))
    assert {sent["name"] for sent in server.upserts} == {run_id(run)}
    assert json.loads(run.wandb_id.read_text()) == {"id": run_id(run)}


def test_without_the_package_the_config_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = util.find_spec
    monkeypatch.setattr("ludus.extras.find_spec", lambda name: None if name == "wandb" else find(name))
    with pytest.raises(ConfigError, match=r"pip install 'ludus-rl\[wandb\]'"):
        SingleRun(parse_config(TABULAR, "kuhn.yaml"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    SingleRun(parse_config(TABULAR.replace("mode: offline", "mode: disabled"), "kuhn.yaml"), tmp_path / "run")


def test_a_damaged_id_is_replaced_and_training_goes_on(run: RunDirectory, caplog: pytest.LogCaptureFixture) -> None:
    run.wandb_id.write_text("{")
    assert run_id(run) == run_id(run)
    assert "gets a new run" in caplog.text


def test_the_process_that_trains_never_imports_wandb(tmp_path: Path) -> None:
    program = (
        "import sys; from ludus import SingleRun, parse_config\n"
        f"assert SingleRun(parse_config({TABULAR!r}, 'k.yaml'), {str(tmp_path / 'run')!r}).run_to_end().stage == 'done'\n"
        "assert 'wandb' not in sys.modules"
    )
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == b""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (False, None),
        (None, None),
        (True, WandbConfig()),
        ({"mode": "disabled"}, None),
        ({"project": "p", "mode": "online"}, WandbConfig(project="p", mode="online")),
    ],
)
def test_true_or_a_mapping_turns_it_on(given: Any, expected: WandbConfig | None) -> None:
    assert TelemetryConfig.model_validate({"wandb": given}).weights_and_biases == expected
