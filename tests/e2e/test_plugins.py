"""The plugins in `examples/plugins` as a user runs them: `ludus run FILE.yaml --plugin FILE.py`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGINS = ROOT / "examples" / "plugins"
SHORT = ["evaluate.final_games=2", "evaluate.games=2", "evaluate.at_start=false", "evaluate.every=1000000"]
SMALL = {
    "spo": ["train.steps=600", "train.batch_episodes=64", "train.minibatch=64", "train.trainers=2"],
    "nim": ["train.steps=600", "train.batch_episodes=64", "train.minibatch=64"],
    "csv_rows": ["train.steps=600"],
    "gated": ["train.steps=2048", "train.batch_steps=1024"],
}
"""`spo` has two trainers, so that explorer, trainer and the trainer's helper all need the plugin."""


def ludus(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from ludus.cli.app import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=ROOT)


def test_every_plugin_has_a_config_and_is_run_here() -> None:
    assert {path.stem for path in PLUGINS.glob("*.py")} == {path.stem for path in PLUGINS.glob("*.yaml")} == {*SMALL}


@pytest.mark.parametrize("name", [pytest.param(one, marks=[pytest.mark.slow] * (one == "gated")) for one in SMALL])
def test_an_example_plugin_trains_and_evaluates(name: str, tmp_path: Path) -> None:
    plugin, run = PLUGINS / f"{name}.py", tmp_path / "run"
    done = ludus("run", plugin.with_suffix(".yaml"), "--plugin", plugin, "--run-dir", run, "-q", *SMALL[name], *SHORT)
    assert done.returncode == 0, done.stderr
    metrics: dict[str, float] = {}
    for line in (run / "metrics.jsonl").read_text().splitlines():
        metrics |= json.loads(line)
    assert 0 <= metrics["evaluate/random/score"] <= 1
    assert ("train/spo" in metrics) == (name == "spo")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("spo", 'train.algorithm.preset: "spo": no such preset'),
        (
            "csv_rows",
            'buffer.loader.kind: "csv": no such loader; there are chess_chunks; one of your own needs --plugin FILE',
        ),
        ("gated", 'policy.network.name: "gated": no such network; one of your own needs --plugin FILE'),
        ("nim", "game nim:12: unknown backend 'nim'"),
    ],
)
def test_without_its_plugin_a_config_is_refused_in_one_sentence(name: str, problem: str) -> None:
    refused = ludus("check", PLUGINS / f"{name}.yaml")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert problem in refused.stderr
