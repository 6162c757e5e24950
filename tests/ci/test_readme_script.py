"""`make readme`: a command that does not end is ended, with what it wrote and all that it started."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "readme.py"


@pytest.fixture
def readme() -> ModuleType:
    spec = importlib.util.spec_from_file_location("readme", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def is_alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_does_not_end_is_ended_and_its_last_words_are_kept(readme: ModuleType, tmp_path: Path) -> None:
    code, output = readme.run("sleep 600 & echo $! > pid; echo working; wait", tmp_path, limit_s=1.0)
    assert code == -9
    assert "working" in output
    assert "not done after 1 s" in output
    pid = (tmp_path / "pid").read_text().strip()
    deadline = time.monotonic() + 30
    while is_alive(pid):
        assert time.monotonic() < deadline


def test_what_ends_is_left_alone(readme: ModuleType, tmp_path: Path) -> None:
    assert readme.run("echo done; exit 3", tmp_path) == (3, "done\r\n")
    code, output = readme.run("echo ready; read line; echo got $line  # ludus replay", tmp_path)
    assert code == 0
    assert "got q" in output


def test_what_the_user_would_have_written_is_there(readme: ModuleType) -> None:
    root = SCRIPT.parents[1]
    said = [readme.with_stand_ins(command) for command in readme.commands((root / "README.md").read_text())]
    assert not [command for command in said if "my_game" in command or "my.yaml" in command]
    assert "ludus games --plugin examples/plugins/nim.py nim" in said
    assert all((root / path).is_file() for path in readme.STAND_INS.values() if "/" in path)
