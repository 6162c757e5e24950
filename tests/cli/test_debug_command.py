"""`ludus debug workflow`: one task, seen from its prompt to its reward."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from ludus.cli.app import app
from ludus.cli.debug_view import show_attempt
from ludus.config import LanguageModelConfig, LoraConfig
from ludus.errors import ConfigError
from ludus.lm.adapters import init_adapter
from ludus.lm.language_models import load_language_model
from ludus.lm.language_shape import LanguageModelShape
from ludus.lm.tiny_model import make_tiny_model
from ludus.policies import PolicyStore
from ludus.records import PolicyName, PolicyRef, PolicyVersion
from ludus.runtime.threads import VARIABLES
from ludus.storage.run_directory import RunDirectory

CONFIG = """
name: looked_at
tasks: ["ludus/arithmetic?digits=1&count=20"]
rewards: [{kind: numeric}, {kind: length, longest: 4, buffer: 2, weight: 0.5}]
workflow: {kind: attempts, attempts: 2, max_tokens: 5}
policy: {model: {path: MODEL, lora: {rank: 2}}}
explore: {group: 4}
train: {steps: 100, algorithm: {preset: grpo}}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("model") / "tiny", layers=1, width=16, heads=2, kv_heads=1)


@pytest.fixture
def config(tmp_path: Path, model: Path) -> Path:
    file = tmp_path / "run.yaml"
    file.write_text(CONFIG.replace("MODEL", str(model)))
    return file


def debug(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["debug", "workflow", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.output


def test_it_computes_in_one_thread_as_an_explorer_does(config: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "count.py"
    plugin.write_text(
        "import atexit, sys, torch\n"
        "atexit.register(lambda: print('threads:', torch.get_num_threads(), file=sys.stderr))\n"
    )
    command = [sys.executable, "-m", "ludus.cli.app", "debug", "workflow", str(config), "--plugin", str(plugin)]
    environment = {**os.environ, **dict.fromkeys(VARIABLES, "4")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert "threads: 1" in done.stderr


def test_every_turn_token_mask_and_reward_is_told(config: Path) -> None:
    shown = json.loads(debug(config, "--task", 5, "--json"))
    assert (shown["task"]["id"], shown["task"]["set"], shown["policy"]) == (5, "tasks:arithmetic", "main@0")
    assert [turn["said"] for turn in shown["turns"]][-1] == shown["response"]
    assert shown["turns"][1]["heard"] == "That is not right. Try again."
    (tokens,) = shown["chats"]
    sampled = [token for token in tokens if token["mask"]]
    assert len(sampled) == 10
    assert all(token["logp"] < 0 for token in sampled)
    assert sum(token["reward"] for token in sampled) == pytest.approx(shown["total"])
    assert sampled[-1]["reward"] == pytest.approx(shown["total"])
    assert all("logp" not in token for token in tokens if not token["mask"])
    assert shown["rewards"].keys() == {"numeric", "length", "workflow"}
    assert not shown["error"]


def test_the_same_task_is_attempted_the_same_way_again(config: Path) -> None:
    first, second = (json.loads(debug(config, "--json")) for _ in range(2))
    first.pop("duration_s"), second.pop("duration_s")
    assert first == second
    other = json.loads(debug(config, "--json", "--task", 1))
    assert other["task"]["inputs"] == first["task"]["inputs"]  # of the same group
    assert other["turns"] != first["turns"]


def test_a_person_reads_it_in_a_terminal(config: Path) -> None:
    shown = debug(config, "--task", 2, "workflow.max_tokens=3")
    for words in ("task 2  tasks:arithmetic", "reply 1", "6 sampled", "mask", "reward numeric: ", "total reward "):
        assert words in shown
    assert len(debug(config, "--every-token").splitlines()) > len(shown.splitlines()) + 20


def test_a_workflow_that_fails_shows_where(config: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from ludus.workflows import register_workflow\n"
        "async def mine(task, model):\n"
        "    await model.chat().say('hello')\n"
        "    return task.inputs['no such field']\n"
        "register_workflow('mine', mine)\n"
    )
    config.write_text(config.read_text().replace("{kind: attempts, attempts: 2,", "{kind: custom, name: mine,"))
    shown = debug(config, "--plugin", plugin, code=1)
    assert "failed: EnvError: the workflow: KeyError: 'no such field'" in shown
    assert "mine.py" in shown
    assert "5 sampled" in shown


def test_a_runs_policy_can_be_used(config: Path, tmp_path: Path, model: Path) -> None:
    run = RunDirectory(tmp_path / "trained")
    run.create(config.read_text())
    lora = LoraConfig(rank=2)
    settings = LanguageModelConfig(path=str(model), lora=lora)
    loaded = load_language_model(settings, threads=1)
    shape = LanguageModelShape(model=settings, critic=False, games=("tasks:arithmetic",))
    store = PolicyStore(run.policies)
    for version in (0, 7):
        weights: dict[str, Any] = init_adapter(loaded.model, lora, seed=version)
        weights = {name: tensor + version for name, tensor in weights.items()}
        store.publish(PolicyRef(name=PolicyName("main"), version=PolicyVersion(version)), weights, shape, step=0)
    base = json.loads(debug(config, "--json"))
    first = json.loads(debug(config, "--json", "--run", run.path, "--policy", "main@0"))
    newest = json.loads(debug(config, "--json", "--run", run.path))
    assert first["turns"] == base["turns"]
    assert newest["policy"] == "main@7"
    assert newest["turns"] != base["turns"]


def test_bad_input_is_one_clear_sentence(config: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="say which with --run"):
        debug(config, "--policy", "main@1")
    games = tmp_path / "games.yaml"
    games.write_text("name: games\ngames: ['open_spiel:tic_tac_toe']\n")
    with pytest.raises(ConfigError, match="expected a run with tasks and a language model"):
        debug(games)


def test_what_a_model_says_is_not_taken_for_markup() -> None:
    token = {"id": 1, "text": "[/red]", "mask": True, "logp": -1.0, "version": 0, "reward": 0.0}
    shown = {
        "task": {"id": 0, "set": "tasks:x", "seed": 0, "inputs": {"prompt": "[bold]"}},
        "policy": "main@0",
        "turns": [{"chat": 0, "heard": "[/red]", "said": "[/x]"}],
        "chats": [[{"id": 2, "text": "[blink]", "mask": False}, token]],
        "response": "[/x]",
        "rewards": {"judge": 1.0},
        "notes": {"judge": "[/b] good"},
        "total": 1.0,
        "metrics": {},
        "truncated": False,
        "error": "",
        "duration_s": 0.1,
    }
    out = StringIO()
    show_attempt(shown, every_token=True, console=Console(file=out, width=100))
    assert out.getvalue().count("[/red]") == 2
    assert "[/b] good" in out.getvalue()
