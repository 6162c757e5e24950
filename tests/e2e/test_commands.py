"""The commands as a user types them, on one small finished run: output, exit codes, bad input."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

from ludus.cli.app import COMMANDS, main
from ludus.cli.tables import Table
from ludus.config import load_config
from ludus.policies import PolicyStore
from ludus.records import PolicyName, PolicyRef
from ludus.storage.run_directory import RunDirectory


def ludus(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["ludus", *arguments])
    with pytest.raises(SystemExit) as left:
        main()
    said = capsys.readouterr()
    return int(left.value.code or 0), said.out, said.err


@pytest.fixture
def run_ludus(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    return lambda *arguments: ludus(capsys, monkeypatch, *map(str, arguments))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_an_example(run_ludus, command: str) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = run_ludus(command, "--help")
    assert code == 0
    assert re.search(rf"Examples?:[\s\S]*ludus {command}", out)


def test_help_loads_nothing_heavy_and_is_quick() -> None:
    code = (
        "import sys, time; started = time.perf_counter(); sys.argv = ['ludus', '--help']\n"
        "from ludus.cli.app import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'jax', 'torch', 'ray', 'textual', 'pyspiel', 'pgx', 'matplotlib', 'pyarrow'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "Commands:" in done.stdout


def test_its_metrics_are_explained_and_those_that_are_promised_are_there(
    finished_run: Path, check_promises: Any
) -> None:
    check_promises("fused", finished_run)


def test_inspect_shows_progress_versions_and_episodes(run_ludus, finished_run: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = run_ludus("inspect", finished_run)
    assert code == 0
    assert "4,096 steps" in out
    assert "finished" in out
    assert "state        finished" in out
    assert "main@2" in out
    code, out, _ = run_ludus("inspect", finished_run, "--json", "--episodes", 3)
    facts = json.loads(out)
    assert len(facts["newest_episodes"]) == 3
    assert facts["progress"]["steps"] == 4096


def test_replay_shows_a_recorded_game_to_its_end(run_ludus, finished_run: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = run_ludus("inspect", finished_run, "--json", "--episodes", 1)
    row = json.loads(out)["newest_episodes"][0]
    code, out, _ = run_ludus("replay", finished_run, row["id"][:16])
    assert code == 0
    assert out.count(" plays ") == row["length"]
    assert f"seat 0: {row['returns'][0]:g}" in out
    code, last, _ = run_ludus("replay", finished_run, "last", "--moves")
    assert code == 0
    assert "returns:" in last


def test_replay_of_an_unknown_episode_says_how_to_list_them(run_ludus, finished_run: Path) -> None:  # type: ignore[no-untyped-def]
    code, _, error = run_ludus("replay", finished_run, "nonsense")
    assert code == 2
    assert "ludus inspect" in error


def play(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def test_play_takes_moves_and_survives_bad_input(
    run_ludus,
    finished_run: Path,
    monkeypatch: pytest.MonkeyPatch,  # type: ignore[no-untyped-def]
) -> None:
    play(monkeypatch, "hello\n99\n\n?\n" + "".join(f"{n}\n" for n in range(9)) * 3)
    code, out, _ = run_ludus("play", finished_run)
    assert code == 0
    assert "'hello' is not a legal move" in out
    assert "'99' is not a legal move" in out
    assert "legal moves: 0" in out
    assert re.search(r"You won\.|You lost\.|A draw\.", out)


@pytest.mark.parametrize("text", ["q\n", "", "0\nquit\n"])
def test_play_can_be_left_at_any_time(
    run_ludus,
    finished_run: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,  # type: ignore[no-untyped-def]
) -> None:
    play(monkeypatch, text)
    code, out, _ = run_ludus("play", finished_run, "--seat", 1, "--policy", "main@1", "--sample")
    assert code == 0
    assert "Left the game." in out


def test_play_shows_what_the_policy_would_play_when_asked(
    run_ludus,  # type: ignore[no-untyped-def]
    finished_run: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    play(monkeypatch, "??\nq\n")
    code, out, _ = run_ludus("play", finished_run)
    assert code == 0
    shown = {int(action): float(share) / 100 for share, action in re.findall(r"([\d.]+)%  (\d+) \(", out)}
    run, ref = RunDirectory(finished_run), PolicyRef(name=PolicyName("main"), version=2)
    table = Table(run, load_config(run.config), "pgx:tic_tac_toe", ref, seed=0, greedy=True, nodes=1)
    policy = PolicyStore(RunDirectory(finished_run).policies).load(table._ref)
    observation, legal = table._look(0)
    network = policy.shape.build()
    empty = np.zeros((1, 0), np.float32)
    logits, value, _ = network.step(policy.weights, observation, empty, empty)
    chances = softmax(np.where(legal[0], np.asarray(logits)[0], -np.inf))
    assert shown == pytest.approx({action: chances[action] for action in shown}, abs=6e-4)
    assert list(shown.values()) == sorted(shown.values(), reverse=True)
    assert f"value for you: {float(np.asarray(value)[0]):+.2f}" in out


def test_play_refuses_seats_and_policies_that_do_not_exist(run_ludus, finished_run: Path) -> None:  # type: ignore[no-untyped-def]
    assert run_ludus("play", finished_run, "--seat", 7)[0] == 2
    code, _, error = run_ludus("play", finished_run, "--policy", "main@99")
    assert code == 2
    assert "main@2" in error


def test_export_writes_a_policy_that_loads_elsewhere(run_ludus, finished_run: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    from safetensors.numpy import load_file

    target = tmp_path / "out"
    code, out, _ = run_ludus("export", finished_run, "--out", target)
    assert code == 0
    card = json.loads((target / "policy.json").read_text())
    assert card["weights_hash"] in out
    assert card["games"] == ["pgx:tic_tac_toe"]
    assert load_file(target / "weights.safetensors")
    code, _, error = run_ludus("export", finished_run, "--out", target)
    assert code == 2
    assert "--force" in error
    assert run_ludus("export", finished_run, "--out", target, "--force")[0] == 0


def test_league_prints_ladder_and_payoffs_and_draws_them(run_ludus, finished_run: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = run_ludus("league", finished_run, "--png", tmp_path)
    assert code == 0
    assert "main@2" in out
    assert "random" in out
    assert sorted(path.name for path in tmp_path.glob("*.png")) == ["ladder.png", "payoffs.png"]


def test_plot_draws_what_the_metrics_did(run_ludus, finished_run: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = run_ludus("plot", finished_run, "--out", tmp_path / "curves.svg")
    assert code == 0
    assert "evaluate/random/score:" in out
    assert (tmp_path / "curves.svg").read_bytes().startswith(b"<?xml")
    code, _, error = run_ludus("plot", finished_run, "--metric", "no/such", "--out", tmp_path / "none.png")
    assert code == 2
    assert "no/such" in error


def test_plot_lays_runs_with_labels_over_each_other(run_ludus, finished_run: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    one, pattern = f"one={finished_run}", f"others={finished_run.parent}/{finished_run.name[:-1]}?"
    code, out, _ = run_ludus("plot", one, pattern, "--out", tmp_path / "both.svg")
    assert code == 0
    assert f"one: {finished_run.name}: evaluate/random/score:" in out
    assert f"others: {finished_run.name}: evaluate/random/score:" in out
    code, _, error = run_ludus("plot", one, pattern)
    assert code == 2
    assert "--out" in error
    code, _, error = run_ludus("plot", f"none={tmp_path}/none-*", "--out", tmp_path / "none.png")
    assert code == 2
    assert "nothing is called" in error


@pytest.mark.parametrize("command", ["inspect", "league", "plot", "replay", "play", "export"])
def test_a_directory_that_is_no_run_is_bad_input(run_ludus, command: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    code, _, error = run_ludus(command, tmp_path / "nothing")
    assert code == 2
    assert "not a run directory" in error


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run", "missing.yaml"], "missing.yaml"),
        (["run", "trian.steps=5"], "did you mean train"),
        (["run", "games=[pgx:conect_four]"], "connect_four"),
        (["run", "games=[open_spiel:tictactoe]", "train.batch_steps=null", "train.shards=1"], "tic_tac_toe"),
        (["run", "train.steps=many"], "train.steps"),
        (["run", "--plugin", "missing.py"], "missing.py"),
        (["bench", "nothing"], "store"),
        (["nonsense"], "nonsense"),
        (["run", "--no-such-option"], "--no-such-option"),
    ],
)
def test_bad_input_is_one_clear_message_and_exit_code_2(
    run_ludus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    expected: str,  # type: ignore[no-untyped-def]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, error = run_ludus(*arguments)
    assert code == 2, error
    assert expected in error
    assert "Traceback" not in error
    assert not (tmp_path / "runs").exists(), "bad input leaves nothing behind"


def test_run_on_a_finished_run_says_so_and_more_steps_go_on(run_ludus, finished_run: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    import shutil

    run = tmp_path / "small"
    shutil.copytree(finished_run, run, symlinks=True)
    config = run / "config.yaml"
    code, out, _ = run_ludus("run", config, "--run-dir", run)
    assert code == 0
    assert "done" in out
    assert "ludus play" in out
    code, out, _ = run_ludus("run", config, "train.steps=5120", "--run-dir", run, "--json")
    assert code == 0
    assert json.loads(out.splitlines()[-1])["steps"] == 5120


def test_a_change_that_would_make_it_another_run_is_refused(run_ludus, finished_run: Path) -> None:  # type: ignore[no-untyped-def]
    code, _, error = run_ludus("run", finished_run / "config.yaml", "seed=9", "--run-dir", finished_run)
    assert code == 2
    assert "seed: the run has 0, now 9" in error
