"""What failed runs once more, alone: what then passes is named as flaky, what fails again fails the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / ".ci" / "run_tests.py"
FAILS_ONCE = """
from pathlib import Path

def test_fails_once():
    mark = Path(__file__).with_suffix(".mark")
    first = not mark.exists()
    mark.touch()
    assert not first

def test_passes(): pass
"""
FAILS = "def test_always_fails(): assert False\n"


def run_tests(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "-q", "-p", "xdist", *arguments, str(folder)]
    light = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=folder, env=light, capture_output=True, text=True, check=False, timeout=120)


def test_a_test_that_passes_alone_is_called_flaky_and_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_once.py").write_text(FAILS_ONCE)

    done = run_tests(tmp_path, "-n", "2")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "FLAKY  test_once.py::test_fails_once" in done.stderr
    assert "test_passes" not in done.stderr


def test_a_test_that_fails_again_fails_the_run_and_is_not_called_flaky(tmp_path: Path) -> None:
    (tmp_path / "test_once.py").write_text(FAILS_ONCE)
    (tmp_path / "test_always.py").write_text(FAILS)

    done = run_tests(tmp_path)

    assert done.returncode == 1
    assert "FLAKY  test_once.py::test_fails_once" in done.stderr
    assert "FLAKY  test_always.py" not in done.stderr


def test_what_passes_runs_once(tmp_path: Path) -> None:
    (tmp_path / "test_good.py").write_text("def test_passes(): pass\n")

    done = run_tests(tmp_path)

    assert done.returncode == 0
    assert done.stdout.count("1 passed") == 1
    assert done.stderr == ""


def test_a_broken_collection_is_not_run_again(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("def test_x(:\n")

    done = run_tests(tmp_path)

    assert done.returncode == 2
    assert "once more" not in done.stderr
