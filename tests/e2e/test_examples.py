"""Every example names parts that exist and fit together, and begins to train."""

from pathlib import Path

import pytest

from ludus import SingleRun, load_config
from ludus.chess.engines.naming import find_program
from ludus.config import resolve_stages
from ludus.errors import ConfigError
from ludus.plugins import load_plugins
from ludus.runs.staged import check_stages

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("**/*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_part_that_an_example_names_exists_and_fits(path: Path) -> None:
    if "uci:stockfish" in path.read_text():
        _need_stockfish()
    load_plugins(path.parent.glob(f"{path.stem}.py"))
    check_stages(resolve_stages(load_config(path)))


def _need_stockfish() -> None:
    try:
        find_program("stockfish")
    except ConfigError:
        pytest.skip("stockfish is not installed: make system-packages")


SMALL = {
    "tic_tac_toe_split": ["explore.games_in_flight=16", "train.batch_episodes=16", "train.minibatch=64"],
    "leduc_league": ["explore.games_in_flight=16", "train.batch_episodes=16", "train.minibatch=64"],
    "kuhn_poker": ["explore.games_in_flight=16", "train.batch_episodes=16", "train.minibatch=64"],
    "connect_four_async": ["explore.games_in_flight=16", "train.batch_episodes=8", "train.minibatch=64"],
}


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.stem in SMALL], ids=lambda path: path.stem)
def test_every_split_example_trains_and_evaluates(path: Path, tmp_path: Path) -> None:
    config = load_config(
        path, [*SMALL[path.stem], "train.steps=1500", "league.snapshot_every=500", "evaluate.final_games=4"]
    )
    status = SingleRun(config, tmp_path / "run").run_to_end()
    assert status.stage == "done"
    assert 0 <= status.metrics["evaluate/random/score"] <= 1
