"""Exact PSRO as a run: exploitability falls, a run goes on where it was, and people can look at it."""

import json
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from ludus import SingleRun, load_config, parse_config
from ludus.cli.league import league
from ludus.cli.match import match
from ludus.cli.plot import plot
from ludus.cli.tables import TabularTable
from ludus.errors import ConfigError
from ludus.games.sequence_form_building import build_sequence_form, load_turn_based, to_open_spiel
from ludus.policies import PolicyStore, TabularShape
from ludus.storage.checkpoints import CheckpointStore
from ludus.storage.jsonl import read_jsonl
from ludus.storage.run_directory import RunDirectory

EXAMPLES = Path(__file__).parents[2] / "examples" / "psro"
LEDUC = """
name: leduc
games: [open_spiel:leduc_poker]
population: {stop: {nash_conv: 0.5, generations: 200}}
league: {snapshot_every: 20}
checkpoint: {every: 5}
telemetry: {tensorboard: false}
"""


@pytest.fixture(scope="module")
def kuhn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on Kuhn poker. Read only."""
    path = tmp_path_factory.mktemp("runs") / "kuhn"
    assert SingleRun(load_config(EXAMPLES / "kuhn.yaml"), path).run_to_end().stage == "done"
    return path


def nash_conv_of_open_spiel(run: Path, game: str) -> float:
    from open_spiel.python.algorithms import exploitability

    store = PolicyStore(run / "policies")
    weights = store.load(store.versions("main")[-1], TabularShape).weights
    table = to_open_spiel(build_sequence_form(game), [weights["seat_0/policy"], weights["seat_1/policy"]])
    return float(exploitability.nash_conv(load_turn_based(game), table))


def test_kuhn_is_solved_and_the_metric_of_every_generation_is_there(kuhn: Path) -> None:
    lines = [line for line in read_jsonl(kuhn / "metrics.jsonl") if "psro/nash_conv" in line]
    curve = [line["psro/nash_conv"] for line in lines]
    assert [line["step"] for line in lines] == list(range(len(lines)))
    assert curve[0] == pytest.approx(11 / 12)
    assert curve[-1] < 1e-9
    assert lines[-1]["psro/value"] == pytest.approx(-1 / 18)
    assert nash_conv_of_open_spiel(kuhn, "kuhn_poker") == pytest.approx(curve[-1], abs=1e-9)


def test_a_stopped_run_goes_on_exactly_and_the_published_policy_is_as_good_as_the_metric_says(tmp_path: Path) -> None:
    config = parse_config(LEDUC, "leduc.yaml")
    broken = SingleRun(config, tmp_path / "broken", sinks=[Stopping(lambda: broken.stop(), at=23)])
    assert broken.run_to_end().stage == "stopped"
    status = SingleRun(config, tmp_path / "broken").run_to_end()
    whole = SingleRun(config, tmp_path / "whole").run_to_end()
    assert status.stage == whole.stage == "done"
    assert status.metrics["psro/nash_conv"] == whole.metrics["psro/nash_conv"] <= 0.5
    ours, theirs = (CheckpointStore(tmp_path / name / "checkpoints", keep=2).latest() for name in ("broken", "whole"))
    assert ours is not None
    assert theirs is not None
    for name, tensor in theirs.tensors("population").items():
        np.testing.assert_array_equal(ours.tensors("population")[name], tensor, err_msg=name)
    found = nash_conv_of_open_spiel(tmp_path / "whole", "leduc_poker")
    assert found == pytest.approx(whole.metrics["psro/nash_conv"], abs=1e-9)


class Stopping:
    """Stops a run when it has come to a generation."""

    def __init__(self, stop: object, at: int) -> None:
        self._stop, self._at, self._once = stop, at, threading.Event()

    def metrics(self, step: int, values: dict[str, float]) -> None:
        if step >= self._at and not self._once.is_set():
            self._once.set()
            self._stop()  # type: ignore[operator]

    def event(self, kind: str, fields: dict[str, object]) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_lower_goal_goes_on_with_the_same_population(tmp_path: Path, kuhn: Path) -> None:
    shutil.copytree(kuhn, tmp_path / "kuhn")
    first = load_config(EXAMPLES / "kuhn.yaml", ["population.stop.generations=3", "name=short"])
    assert SingleRun(first, tmp_path / "short").run_to_end().steps == 3
    more = load_config(EXAMPLES / "kuhn.yaml", ["name=short"])
    status = SingleRun(more, tmp_path / "short").run_to_end()
    assert status.steps == 6
    assert status.metrics["psro/nash_conv"] < 1e-9
    other = load_config(EXAMPLES / "kuhn.yaml", ["population.ties=first"])
    with pytest.raises(ConfigError, match=r'population.ties: the run has "even", now "first"'):
        SingleRun(other, tmp_path / "kuhn").run_to_end()


@pytest.mark.parametrize("game", ["matrix_rps", "matrix_mp", "nim(pile_sizes=1;0)"])
def test_games_that_are_solved_from_the_start_end_at_once(tmp_path: Path, game: str) -> None:
    text = f"name: x\ngames: ['open_spiel:{game}']\npopulation: {{stop: {{nash_conv: 0}}}}\ntelemetry: {{tensorboard: false}}\n"
    status = SingleRun(parse_config(text, "x.yaml"), tmp_path / "run").run_to_end()
    assert status.stage == "done"
    assert status.metrics["psro/nash_conv"] == 0.0


def test_a_game_that_is_too_large_ends_the_run_with_the_reason(tmp_path: Path) -> None:
    text = "name: x\ngames: ['open_spiel:leduc_poker']\npopulation: {max_histories: 5000}\n"
    with pytest.raises(ConfigError, match="leduc_poker: no exact solution: its tree has more than 5,000 histories"):
        SingleRun(parse_config(text, "x.yaml"), tmp_path / "run").run_to_end()


def test_a_game_that_cannot_be_solved_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    text = "name: x\ngames: ['open_spiel:kuhn_poker(players=3)']\npopulation: {}\n"
    with pytest.raises(ConfigError, match="it has 3 players; two are needed"):
        SingleRun(parse_config(text, "x.yaml"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_league_shows_the_meta_strategy_and_the_payoffs(
    kuhn: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    league(kuhn, png=tmp_path)
    shown = capsys.readouterr().out
    assert "Meta-strategy" in shown
    assert "value of seat 0: -0.0555556" in shown
    for name in ("nash_conv", "payoffs", "meta_strategy"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / f"{name}.svg").is_file()
    league(kuhn, png=tmp_path, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["exploitability"]["metric"] == "psro/nash_conv"
    assert found["exploitability"]["values"][-1] < 1e-9
    assert [each["generation"] for each in found["meta_strategies"]] == found["exploitability"]["generations"]
    weights = [np.array(seat["weights"]) for seat in found["seats"]]
    assert weights[0] @ np.array(found["payoffs"]["mean"]) @ weights[1] == pytest.approx(-1 / 18)
    plot([str(kuhn)], out=tmp_path / "curves.svg")
    assert "psro/nash_conv: 0.9167 at step 0" in capsys.readouterr().out


def test_people_can_play_against_the_meta_strategy(kuhn: Path) -> None:
    run = RunDirectory(kuhn)
    newest = PolicyStore(run.policies).versions("main")[-1]
    openings = []
    for seed in range(300):
        table = TabularTable(run, "open_spiel:kuhn_poker", newest, seed=seed)
        if table.position.open_spiel_state().information_state_string(0) == "1":
            openings.append(table.decide(0))
    assert len(openings) > 50
    assert sum(openings) == 0, "with the queen, no equilibrium of Kuhn poker bets first"


def test_tables_meet_each_other_and_fixed_players(kuhn: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An equilibrium loses 1/18 in seat 0 and wins it in seat 1 against itself; a player at random pays it more."""
    match(kuhn, "latest", "latest", games=4000, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert abs(found["mean_return"]) < 2 * found["mean_return_margin"]
    match(kuhn, "latest", "random", games=2000, as_json=True)
    assert json.loads(capsys.readouterr().out)["mean_return"] > 0.05


@pytest.mark.slow
@pytest.mark.parametrize(("name", "limits"), [("kuhn", {0.05: 0.1}), ("leduc", {0.1: 4.0, 0.01: 20.0})])
def test_examples_fall_as_fast_as_promised(tmp_path: Path, name: str, limits: dict[float, float]) -> None:
    config = load_config(EXAMPLES / f"{name}.yaml", ["population.stop.nash_conv=0.009", "telemetry.tensorboard=false"])
    assert SingleRun(config, tmp_path / "run").run_to_end().stage == "done"
    lines = [line for line in read_jsonl(tmp_path / "run" / "metrics.jsonl") if "psro/nash_conv" in line]
    for nash_conv, cpu_s in limits.items():
        assert next(line["psro/cpu_s"] for line in lines if line["psro/nash_conv"] < nash_conv) <= cpu_s
