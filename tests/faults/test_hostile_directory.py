"""The user stands in a folder with files named like modules. Nothing there is executed: only `--plugin` files are."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ludus
from ludus.daemon.driver import Driver

OTHERS = ("numpy", "jax", "msgspec", "pyarrow", "pandas", "yaml", "torch", "rich", "typer", "ludus", "wandb", "pip")
CONFIG = """
name: hostile
games: [open_spiel:tic_tac_toe]
topology: split
policy: {network: {kind: mlp, hidden: [8]}}
explore: {games_in_flight: 8, workers: 1}
train: {trainers: 2, steps: 40, batch_episodes: 8, minibatch: 64, epochs: 1}
evaluate: {against: [random], games: 1, final_games: 1}
telemetry: {every_s: 0}
"""
LUDUS = "from ludus.cli.app import main\nmain()\n"
SANDBOX = """
import asyncio
from ludus.sandbox.sandbox import Sandbox
sandbox = Sandbox()
print(asyncio.run(sandbox.run("import json, queue, colorsys; print(json.dumps([1]))")).stdout)
sandbox.close()
"""


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "executed"


@pytest.fixture
def hostile(tmp_path: Path, marker: Path) -> Path:
    """A folder with a file for every module of the standard library and some others; each says who executed it."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    said = "f'{__name__}: ' + ascii(open('/proc/self/cmdline').read()) + '\\n'"
    for name in {*sys.stdlib_module_names, *OTHERS}:
        (folder / f"{name}.py").write_text(f"open({str(marker)!r}, 'a').write({said})\n")
    return folder


def script(folder: Path, text: str) -> list[str]:
    """As an installed command is started: its own folder is the first on the path, not the current one."""
    path = folder / "bin" / "command"
    path.parent.mkdir()
    path.write_text(text)
    return [sys.executable, str(path)]


def said_by(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def executed(marker: Path) -> str:
    return marker.read_text() if marker.exists() else ""


def test_the_files_would_be_executed_by_a_child_that_is_started_carelessly(hostile: Path, marker: Path) -> None:
    subprocess.run([sys.executable, "-c", "import colorsys"], cwd=hostile, check=True)
    assert executed(marker).startswith("colorsys")


@pytest.mark.slow
def test_no_process_of_a_run_executes_files_of_the_current_folder(tmp_path: Path, hostile: Path, marker: Path) -> None:
    (tmp_path / "hostile.yaml").write_text(CONFIG)
    arguments = ["run", str(tmp_path / "hostile.yaml"), "--run-dir", str(tmp_path / "run"), "--quiet"]
    said_by([*script(tmp_path, LUDUS), *arguments], hostile)
    assert (tmp_path / "run" / "policies" / "main" / "00000001").is_dir()
    assert executed(marker) == ""


def test_the_sandbox_executes_no_files_of_the_current_folder(tmp_path: Path, hostile: Path, marker: Path) -> None:
    assert said_by(script(tmp_path, SANDBOX), hostile).strip() == "[1]"
    assert executed(marker) == ""


def test_a_daemon_executes_no_files_of_the_current_folder(tmp_path: Path, hostile: Path, marker: Path) -> None:
    with Driver(log=tmp_path / "log", folder=hostile) as driver:
        assert driver.process.poll() is None
    assert driver.process.returncode == 0, (tmp_path / "log").read_text()
    assert executed(marker) == ""


def test_every_interpreter_that_ludus_starts_leaves_the_current_folder_out() -> None:
    commands = []
    for path in Path(ludus.__file__).parent.rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "sys.executable" in text or "interpreter()" in text else ():
            if isinstance(node, ast.List | ast.Tuple) and node.elts:
                first, *rest = map(ast.unparse, node.elts)
                if first in ("sys.executable", "interpreter()"):
                    commands.append((path.name, rest[0]))
    assert len(commands) >= 8
    assert {flag for _, flag in commands} <= {"'-P'", "'-I'"}, commands
