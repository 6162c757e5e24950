"""`ludus check`."""

from __future__ import annotations

import json
import os
import re
import socket
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import ludus
from ludus import extras
from ludus.cli.app import _memory_hint
from ludus.cli.app import app as whole_app
from ludus.cli.run import check

app = typer.Typer(rich_markup_mode=None)
app.command()(check)
run = CliRunner()


def test_the_derived_values_are_an_aligned_table() -> None:
    found = run.invoke(app, [])
    assert found.exit_code == 0
    lines = found.stdout.splitlines()
    assert lines[0] == "run                    runs/connect_four"
    assert len({line.index(line.split("  ")[-1].strip()) for line in lines if line.split("  ")[-1].strip()}) == 1


def test_overrides_apply_to_the_file_or_to_the_demo(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("name: mine\ngames: [pgx:connect_four]\n")
    assert "runs/mine" in run.invoke(app, [str(file), "explore.games_in_flight=512"]).stdout
    assert "512 games" in run.invoke(app, [str(file), "explore.games_in_flight=512"]).stdout
    assert "runs/other" in run.invoke(app, ["name=other"]).stdout


def test_mistakes_are_all_shown_on_stderr_with_exit_code_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text(
        'name: x\ngames: [pgx:chess]\ntrain:\n  algorithm: {kl_stop: "0,01"}\nexplore: {num_worker: 4}\n'
    )
    found = run.invoke(app, ["run.yaml", "seed=x"])
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr.splitlines() == [
        'run.yaml:4    train.algorithm.kl_stop: expected a number > 0, got "0,01"',
        "run.yaml:5    explore.num_worker: unknown key — did you mean explore.workers?",
        'command line  seed: expected a whole number ≥ 0 and < 9223372036854775808, got "x"',
    ]


def test_a_file_that_is_not_there_is_bad_input() -> None:
    found = run.invoke(app, ["nowhere.yaml"])
    assert found.exit_code == 2
    assert found.stderr == "nowhere.yaml: cannot be read: No such file or directory\n"


def test_the_schema_is_printed_as_json() -> None:
    found = run.invoke(app, ["--schema"])
    assert found.exit_code == 0
    assert json.loads(found.stdout)["title"] == "ludus run"


def test_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run.invoke(app, [])
    assert list(tmp_path.iterdir()) == []


def test_help_has_an_example() -> None:
    assert "\n    ludus check examples/connect_four.yaml\n" in run.invoke(app, ["--help"]).stdout


def test_parts_that_do_not_exist_are_mistakes_too(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("name: x\ngames: [open_spiel:no_such_game]\nevaluate: {against: [nobody]}\n")
    found = run.invoke(app, [str(file)])
    assert found.exit_code == 2
    assert "no_such_game" in found.stderr


def test_a_plugin_makes_its_parts_known(tmp_path: Path) -> None:
    plugin = tmp_path / "own_game.py"
    plugin.write_text(
        "from dataclasses import replace\n"
        "from ludus.games import register_game\n"
        "from ludus.games.open_spiel import OpenSpielGame\n"
        "class Own(OpenSpielGame):\n"
        "    def __init__(self, name):\n"
        "        super().__init__(name)\n"
        "        self.spec = replace(self.spec, key='own_board')\n"
        "register_game('own_board', lambda: Own('tic_tac_toe'))\n"
    )
    file = tmp_path / "run.yaml"
    file.write_text("name: x\ngames: [own_board]\n")
    assert run.invoke(app, [str(file)]).exit_code == 2
    found = run.invoke(app, [str(file), "--plugin", str(plugin)])
    assert found.exit_code == 0, found.stderr


STAGES = """\
name: mine
games: [pgx:connect_four]
stages:
  - {name: first, train: {steps: 100000}}
  - {name: second, train: {steps: 200000}, league: {opponents: [{kind: fixed, players: [nobody]}]}}
"""


def test_every_stage_is_described_with_its_directory(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(STAGES.replace("nobody", "random"))
    found = run.invoke(app, [str(file)])
    assert found.exit_code == 0, found.stderr
    first, second = found.stdout.split("stage 2 of 2: second\n")
    assert first.splitlines()[0] == "stage 1 of 2: first"
    assert "runs/mine/1_first" in first
    assert "runs/mine/2_second" in second
    assert "the policy of runs/mine/1_first" in second


def test_a_part_that_a_stage_lacks_is_found_with_the_stage(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(STAGES)
    found = run.invoke(app, [str(file)])
    assert found.exit_code == 2
    assert found.stderr.startswith("stages.1: ")
    assert "nobody" in found.stderr


def test_measuring_is_described_without_what_training_would_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = run.invoke(app, ["mode=evaluate", "policy.start=runs/x"])
    assert found.stderr == "policy.start: runs/x is not a run; write the directory of one, such as runs/sft\n"


TASKS = """\
name: x
tasks: ["ludus/arithmetic?count=10"]
rewards: [{kind: exact}]
policy: {model: {path: ludus/tiny}}
train: {algorithm: {preset: mix}, batch_episodes: 8}
explore: {group: 4}
"""
BOTS = """\
name: x
games: [open_spiel:tic_tac_toe]
train: {algorithm: {preset: sft}}
buffer: {expert: {sources: [{kind: bots, players: [nobody]}]}}
"""


def problems_of(tmp_path: Path, text: str, *overrides: str) -> str:
    file = tmp_path / "run.yaml"
    file.write_text(text)
    found = run.invoke(app, [str(file), *overrides])
    assert (found.exit_code, found.stdout) == (2, ""), found.stdout
    return found.stderr


def test_bots_in_a_run_on_tasks_and_unknown_bots_are_mistakes(tmp_path: Path) -> None:
    bots = "buffer={expert: {sources: [{kind: bots, players: [random]}]}}"
    assert "buffer.expert.sources.0.kind: bots play the run's games, and it has none" in problems_of(
        tmp_path, TASKS, bots
    )
    assert "player 'nobody'" in problems_of(tmp_path, BOTS)


def test_rows_to_learn_from_must_be_there_and_be_rows(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    expert = f"buffer={{expert: {{sources: [{file}]}}}}"
    assert f"{file}: no such file" in problems_of(tmp_path, TASKS, expert)
    file.write_text('{"prompt": "1+1"}\n')
    assert "buffer.expert.sources.0: " in problems_of(tmp_path, TASKS, expert)
    file.write_text('{"prompt": "1+1", "response": "2"}\n')
    found = run.invoke(app, [str(tmp_path / "run.yaml"), expert])
    assert found.exit_code == 0, found.stderr
    other = f"buffer={{expert: {{sources: [{{kind: run, run: {tmp_path}}}]}}}}"
    assert f"buffer.expert.sources.0: {tmp_path} is not a run" in problems_of(tmp_path, TASKS, other)


def test_a_reward_model_must_be_there_and_be_one(tmp_path: Path) -> None:
    from ludus.lm.tiny_model import make_tiny_model

    model = tmp_path / "model"
    rewards = f"rewards=[{{kind: reward_model, path: {model}}}]"
    base = TASKS.replace("preset: mix", "preset: grpo")
    assert f"rewards.reward_model: no model folder {model}" in problems_of(tmp_path, base, rewards)
    make_tiny_model(model, layers=1, width=16, heads=2, kv_heads=1)
    assert "not a reward model" in problems_of(tmp_path, base, rewards)


@pytest.mark.parametrize(
    ("text", "missing", "said"),
    [
        (TASKS, "torch", "policy.model needs torch; install with: pip install 'ludus-rl[llm]'\n"),
        (
            "name: x\ngames: [pgx:chess]\n",
            "jax",
            "policy.network needs jax; install with: pip install 'ludus-rl[games]'\n",
        ),
        (
            "name: x\ngames: [pgx:chess]\n",
            "pgx",
            "game pgx:chess: it needs pgx; install with: pip install 'ludus-rl[games]'\n",
        ),
        (
            "name: x\ngames: [pgx:connect_four]\ntelemetry: {wandb: true}\n",
            "wandb",
            "telemetry.wandb needs wandb; install with: pip install 'ludus-rl[wandb]'\n",
        ),
    ],
)
def test_a_missing_extra_is_named_in_the_same_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, missing: str, said: str
) -> None:
    monkeypatch.setattr("ludus.extras.find_spec", lambda name: None if name == missing else find_spec(name))
    assert problems_of(tmp_path, text) == said


def test_every_hint_to_install_something_is_written_in_one_place() -> None:
    sources = Path(ludus.__file__).parent.rglob("*.py")
    assert {path.name for path in sources if "pip install" in path.read_text()} <= {"extras.py", "telemetry.py"}


def test_extras_in_hints_have_the_packages_that_the_distribution_says() -> None:
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert declared["name"] == extras.DISTRIBUTION
    for extra, packages in extras._EXTRAS.items():
        named = {name.replace("_", "-") for name in (extras._NAMES.get(one, one) for one in packages)}
        wanted = {re.split(r"[<>=[]", line)[0].replace("_", "-") for line in declared["optional-dependencies"][extra]}
        assert named <= wanted


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path, kind: str) -> None:
    path = {"pipe": tmp_path / "run.yaml", "device": Path("/dev/zero"), "folder": tmp_path}[kind]
    if kind == "pipe":
        os.mkfifo(path)
    found = run.invoke(app, [str(path)])
    said = "cannot be read: Is a directory" if kind == "folder" else "is no file, but a pipe, a device or a socket"
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr.startswith(f"{path}: {said}")


def test_an_address_space_that_is_too_small_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda kind: (600 << 20, 600 << 20))
    found = run.invoke(whole_app, ["metrics", "train/approx_kl"])
    said, remedy = "the address space is limited to 600 MB", "raise it with `ulimit -v unlimited`"
    assert found.exit_code == 0
    assert found.stderr == f"{said}, and JAX and PyTorch need more: {remedy}\n"
    for error in (MemoryError(), ImportError("libjax.so: failed to map segment from shared object")):
        assert _memory_hint(error) == f"; {said}: {remedy}"
    assert _memory_hint(ValueError("something else")) == ""


def test_a_cluster_that_cannot_be_joined_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ludus.extras.is_installed", lambda package: True)  # nobody gets as far as using Ray
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        file = tmp_path / "run.yaml"
        file.write_text(f"name: x\ngames: [open_spiel:tic_tac_toe]\nruntime: {{kind: ray, address: '{address}'}}\n")
        found = run.invoke(app, [str(file)])
    assert (found.exit_code, found.stdout) == (2, "")
    assert f"no Ray cluster at {address}" in found.stderr
