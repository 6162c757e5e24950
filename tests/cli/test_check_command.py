"""`ludus check`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

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
