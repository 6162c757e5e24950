"""`ludus tui` on the command line: what it listens to, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ludus.cli.tui import make_source
from ludus.daemon.messages import StartTraining
from ludus.errors import ConfigError
from ludus.monitor.live_sources import ChildSource
from ludus.monitor.source import RecordedSource


def test_a_config_is_started_a_recording_is_replayed_and_nothing_else_is_guessed(tmp_path: Path) -> None:
    config, recording = tmp_path / "a.yaml", tmp_path / "a.jsonl"
    config.touch()
    recording.touch()
    source, first = make_source(config, ["seed=3"], tmp_path / "run", [Path("mine.py")])
    assert isinstance(source, ChildSource)
    assert source._command[-3:] == ["daemon", "--plugin", "mine.py"]
    assert first[-1] == StartTraining(config=str(config), overrides=("seed=3",), run_dir=str(tmp_path / "run"))
    assert isinstance(make_source(recording, [], None, [])[0], RecordedSource)
    with pytest.raises(ConfigError, match="does not exist"):
        make_source(tmp_path / "missing.yaml", [], None, [])
    with pytest.raises(ConfigError, match="is not a run directory"):
        make_source(tmp_path, [], None, [])


def test_without_a_terminal_it_says_what_to_use_instead(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ludus.cli.app", "tui", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 2
    assert "ludus tui needs a terminal; in a pipe use: ludus run --json" in done.stderr
