"""`ludus chess eval`, `overfit` and `tune-lr`: the loader's numbers, honest intervals, bounds, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache
from typer.testing import CliRunner

pytest.importorskip("chess")
pytest.importorskip("ludus_chess", reason="the native part of chess is not built")

from tests.native.chunk_files import decode, make_game, make_loader, take, write_games

from ludus.chess.learner import ChessBatch, ChessLearner
from ludus.chess.training.config_text import objective_of
from ludus.chess.training.evaluation import Report
from ludus.chess.training.overfit import lower_bounds
from ludus.chess.training.rate_sweep import Point, suggest
from ludus.chess.training.record_tensors import Game, batch_of, concatenated, in_part, read_games
from ludus.cli.app import app
from ludus.config import ChessResidualConfig, TermConfig, load_or_demo
from ludus.errors import ConfigError, TrainError

REAL = Path(__file__).parents[2].parent / "shared" / "data"
GAMES = 12


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A config of a tiny network, its initial weights, and chunks."""
    home = tmp_path_factory.mktemp("measure")
    write_games(home / "chunks", range(GAMES), plies=20)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        invoke("init", "tiny.yaml", "--chunks", str(home / "chunks"), "--layers", "1", "--width", "8", "--weights")
    return home


@pytest.fixture(autouse=True)
def _there(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(home)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(home / "compiled"))
    config: Any = jax.config
    before = config.jax_compilation_cache_dir
    yield
    config.update("jax_compilation_cache_dir", before)
    compilation_cache.reset_cache()


def invoke(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["chess", *words], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.stdout


@pytest.mark.parametrize("input_format", [1, 2, 3, 4, 5, 132, 133])
def test_a_games_tensors_are_the_loaders(input_format: int, tmp_path: Path) -> None:
    write_games(tmp_path, [7], plies=20, input_format=input_format)
    (game,) = read_games(tmp_path, input_format=input_format)
    assert isinstance(game, Game)
    ours = batch_of(game.records)
    for mine, theirs in zip(ours, decode(make_game(7, plies=20, input_format=input_format)), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-6, atol=1e-7)


def test_the_held_out_games_are_those_of_the_loader(home: Path) -> None:
    split = {"train": 0.6, "validation": 0.4}
    found = read_games(home / "chunks", input_format=1, split=split, part="validation")
    games = [each for each in found if isinstance(each, Game)]
    assert 0 < len(games) < GAMES
    ours = concatenated(batch_of(game.records) for game in games)
    with make_loader(home / "chunks", split=split, part="validation", batch_size=len(ours.planes)) as loader:
        theirs = take(loader)
    assert {row.tobytes() for row in ours.planes} == {row.tobytes() for row in theirs[0]}
    sides = "".join("ab"[in_part(f"training.{i}.gz", {"train": 1, "test": 1}, "test")] for i in range(16))
    assert sides == "aaaaabaaabbbaaba"  # as written down in native/chess/src/loader/split


@pytest.mark.slow
def test_an_evaluation_has_the_learners_losses(home: Path) -> None:
    report = json.loads(invoke("eval", "runs/tiny_start", "chunks", "--part", "all", "--json"))
    assert (report["games"], report["positions"], report["refused"]) == (GAMES, GAMES * 20, 0)
    config = load_or_demo(home / "tiny.yaml")
    from ludus.chess.network_source import open_network

    source = open_network("runs/tiny_start")
    learner = ChessLearner(source.shape.build(), config.train)
    games = [each for each in read_games(home / "chunks", input_format=1) if isinstance(each, Game)]
    state = learner.init(0)._replace(params=dict(source.weights))
    expected = learner.validate(state, concatenated(batch_of(game.records) for game in games))
    for name, value in expected.items():
        assert report["metrics"][name]["mean"] == pytest.approx(value, abs=1e-4), name
    error = report["metrics"]["moves_left_error"]
    assert error["low"] < error["mean"] < error["high"]


def test_intervals_count_games_not_positions() -> None:
    one, many = Report(), Report()
    for number in range(20):
        value = float(number % 2)
        one.add({"x": np.array([value])})
        many.add({"x": np.full(50, value)})
    spread = one.measured()["x"].high - one.measured()["x"].mean
    assert many.measured()["x"].high - many.measured()["x"].mean == pytest.approx(spread)
    assert spread == pytest.approx(1.959964 * np.sqrt(0.25 / 19))


def test_positions_of_a_game_are_drawn_by_the_seed(home: Path) -> None:
    words = ["eval", "runs/tiny_start", "chunks", "--part", "all", "--per-game", "3", "--games", "4", "--json"]
    first = json.loads(invoke(*words))
    assert (first["games"], first["positions"]) == (4, 12)
    assert json.loads(invoke(*words)) == first
    assert json.loads(invoke(*words, "--seed", "1"))["metrics"] != first["metrics"]


def test_bounds_are_the_entropies_of_targets() -> None:
    planes = np.zeros((3, 112, 8, 8), np.float32)
    planes[2] = 1
    policy = np.full((3, 1858), -1, np.float32)
    policy[0, :2], policy[1, :2], policy[2, :4] = (1, 0), (0, 1), 0.25
    values = np.full((3, 6, 3), np.nan, np.float32)
    values[:, 0, :2] = (0, 1)  # draws
    network = ChessResidualConfig(kind="chess_residual")
    bounds = lower_bounds(ChessBatch(planes, policy, values), objective_of(network))
    # Two targets of one position: the best answer is their mean.
    assert bounds["chess_policy"] == pytest.approx((2 * np.log(2) + np.log(4)) / 3)
    assert (bounds["chess_value"], bounds["chess_moves_left"]) == (0.0, 0.0)
    kl = (TermConfig(loss="chess_policy", options={"kind": "kl"}),)
    assert lower_bounds(ChessBatch(planes, policy, values), kl)["chess_policy"] == pytest.approx(2 * np.log(2) / 3)


@pytest.mark.slow
def test_one_batch_is_learnt_down_to_its_bounds(home: Path) -> None:
    words = ["overfit", "tiny.yaml", "--positions", "8", "--learning-rate", "0.02", "--within", "0.1"]
    told = json.loads(invoke(*words, "--steps", "400", "--json"))
    assert told["learnt"]
    first, last = told["steps"][0], told["steps"][-1]
    assert told["bounds"]["chess_policy"] > 0.1
    for name, bound in told["bounds"].items():
        assert bound - 1e-3 <= last[name] <= bound + 0.1 < first[name], name
    assert "not learnt in 1 steps" in invoke(*words, "--steps", "1", code=1)


@pytest.mark.slow
def test_a_sweep_suggests_a_rate_and_draws_it(home: Path) -> None:
    words = ["tune-lr", "tiny.yaml", "--minibatch", "16", "--steps", "60", "--low", "1e-5", "--high", "10"]
    told = json.loads(invoke(*words, "--out", "rates.png", "--json"))
    assert 1e-5 < told["suggested"] < told["lowest"]
    assert told["points"][0]["rate"] == pytest.approx(1e-5)
    assert (home / "rates.png").read_bytes().startswith(b"\x89PNG")


def test_the_suggestion_is_below_the_lowest_loss_and_never_made_up() -> None:
    rates = np.geomspace(1e-5, 1.0, 50)
    falls = [Point(rate, 3 - max(0.0, np.log10(rate) + 4) if rate < 0.1 else 30.0) for rate in rates]
    found = suggest(falls, high=1.0)
    assert found.lowest == pytest.approx(0.05, rel=0.6)
    assert found.rate <= found.lowest / 9
    with pytest.raises(TrainError, match="did not fall at any rate"):
        suggest([Point(rate, 3 + rate) for rate in rates], high=1.0)


def test_bad_input_is_refused_in_a_sentence(home: Path, tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "x.gz").write_bytes(b"nothing")
    (tmp_path / "none").mkdir()
    start = "runs/tiny_start"
    cases: dict[str, Any] = {
        "nowhere: no chunks; write a directory of them behind the network": ["eval", start, "nowhere"],
        "--part train: nothing is held out; write --validation between 0 and 1, or --part all": [
            "eval", start, "--part", "train", "--validation", "0"
        ],
        "there are no games to measure on; the first refusal: ": ["eval", start, str(tmp_path / "bad")],
        "has no chunks that can be used; the first refusal: ": ["overfit", "tiny.yaml", "--chunks", str(tmp_path / "bad")],
        "no directory of chunks; write it with --chunks DIRECTORY": ["overfit", "tiny.yaml", "--chunks", "nowhere"],
        f"{tmp_path / 'none'} has no chunks that can be used": ["tune-lr", "tiny.yaml", "--chunks", str(tmp_path / "none")],
        "--low 1 must be below --high 0.1": ["tune-lr", "tiny.yaml", "--low", "1", "--high", "0.1"],
        "--out x.gif: expected a file that ends in .png or .svg": ["tune-lr", "tiny.yaml", "--out", "x.gif"],
    }  # fmt: skip
    for sentence, words in cases.items():
        with pytest.raises(ConfigError) as caught:
            invoke(*words)
        assert sentence in str(caught.value)


@pytest.mark.slow
@pytest.mark.skipif(not REAL.is_dir(), reason=f"{REAL} is not there")
def test_the_real_network_agrees_with_its_own_games() -> None:
    report = json.loads(invoke("eval", str(REAL / "maia-1100.pb.gz"), str(REAL / "v6"), "--per-game", "10", "--json"))
    assert report["games"] == 100
    top1 = report["metrics"]["policy_top1"]
    # Its search of 16 visits follows its policy in four positions out of five.
    assert 0.7 < top1["low"] < top1["high"] < 0.9


@pytest.mark.slow
def test_a_directory_of_chunks_is_trained_on_and_its_held_out_games_measured(tmp_path: Path) -> None:
    write_games(tmp_path / "chunks", range(16), plies=20)
    small = ["policy.network.blocks=1", "policy.network.filters=8", "train.minibatch=16", "train.updates=2"]
    data = [f"buffer.loader.options.{key}" for key in ("positions=32", "validation=0.3", "reservoir=64")]
    rounds = ["cycle.new_sequences=4", "cycle.updates=2", "telemetry.tensorboard=false"]
    unplayed = ["evaluate.against=[]", "evaluate.games=0", "evaluate.final_games=0", "evaluate.at_start=false"]
    run = str(tmp_path / "run")
    words = [*small, *data, *rounds, *unplayed, "--run-dir", run, "--quiet"]
    done = CliRunner().invoke(app, ["chess", "train", str(tmp_path / "chunks"), *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert [path.name for path in (tmp_path / "run" / "networks").iterdir()] == ["chess-00000002.pb.gz"]
    report = json.loads(invoke("eval", run, "--json"))
    assert report["part"] == "validation"
    assert 0 < report["games"] < 16
    facts = json.loads(invoke("describe", run, "--json"))
    assert facts["versions"].endswith("to main@1")
    checkpoint = max((tmp_path / "run" / "checkpoints").iterdir())
    assert (
        json.loads(invoke("describe", str(checkpoint), "--json"))["is"]
        == f"checkpoint {int(checkpoint.name)} of the run {run}"
    )
    assert json.loads(invoke("eval", str(checkpoint), "--json"))["metrics"] == report["metrics"]
