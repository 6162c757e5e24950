"""`examples/chess.yaml`, cut: the real engine plays beside the training, and networks come out."""

import json
from pathlib import Path
from typing import Any

import pytest
from psutil import Process

pytest.importorskip("ludus_chess", reason="the native part of chess is not built")

from ludus import SingleRun, load_config
from ludus.chess.evaluators import open_evaluator
from ludus.chess.network_source import open_network
from ludus.config import RunConfig

EXAMPLE = Path(__file__).parents[2] / "examples" / "chess.yaml"
ENGINE = "stockfish?nodes=20&multipv=3"
SMALL = (
    "policy.network.blocks=1",
    "policy.network.filters=8",
    "policy.network.squeeze=4",
    "policy.network.heads.policy.vanilla.kind=convolution",  # shapes that another test has compiled, too
    "buffer.loader.options.validation=0.3",
    "train.minibatch=16",
    "telemetry.tensorboard=false",
)


def cut(engine: str, *values: str, games: int, plies: int) -> RunConfig:
    """The example with a small network; the engine's own arguments are cut, too."""
    command = list(load_config(EXAMPLE).buffer.loader.command)  # type: ignore[union-attr]
    wanted = {"stockfish?": engine, "--up-to": str(games), "--max-plies": str(plies)}
    for place, word in enumerate(command):
        if word.startswith("stockfish?"):
            command[place] = wanted["stockfish?"]
        elif word in wanted:
            command[place + 1] = wanted[word]
    return load_config(EXAMPLE, overrides=(*SMALL, *values, f"buffer.loader.command={json.dumps(command)}"))


def rows_of(run: Path, file: str = "metrics.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / file).read_text().splitlines()]


def engines() -> list[Process]:
    return [child for child in Process().children(recursive=True) if "stockfish" in " ".join(child.cmdline())]


def test_games_arrive_while_it_trains_and_networks_come_out(stockfish: str, tmp_path: Path) -> None:
    config = cut(
        ENGINE,
        "cycle.new_sequences=5",
        "cycle.updates=1",
        "cycle.growth=1",
        "train.updates=2",
        "buffer.loader.options.positions=32",
        "buffer.loader.options.validation_positions=8",
        "evaluate.games=0",
        "evaluate.final_games=0",
        "evaluate.at_start=false",
        games=10_000,
        plies=30,
    )
    run = tmp_path / "run"
    status = SingleRun(config, run).run_to_end()
    assert status.stage == "done"
    assert len(list(run.glob("networks/*.pb.gz"))) == 2
    assert len([row for row in rows_of(run) if "train/validation/policy_top1" in row]) == 2
    began = [row["new_sequences"] for row in rows_of(run, "events.jsonl") if row["event"] == "round_began"]
    assert len(began) == 2
    assert all(began)
    assert engines() == []
    assert open_evaluator(str(run)).name == "run-main-2"
    loader = open_network(str(run)).config.buffer.loader  # type: ignore[union-attr]
    assert loader is not None
    assert loader.options["directory"] == str(run / "chunks")


@pytest.mark.slow
def test_the_network_agrees_with_the_engine_more_and_more(stockfish: str, tmp_path: Path) -> None:
    config = cut(
        ENGINE,
        "cycle.new_sequences=100",
        "cycle.updates=10",
        "cycle.growth=1",
        "train.updates=30",
        "buffer.loader.options.positions=512",
        "buffer.loader.options.validation_positions=2048",
        "evaluate.games=8",
        "evaluate.final_games=8",
        games=300,
        plies=120,
    )
    run = tmp_path / "run"
    assert SingleRun(config, run).run_to_end().stage == "done"
    rows = rows_of(run)
    top1 = [row["train/validation/policy_top1"] for row in rows if "train/validation/policy_top1" in row]
    assert len(top1) == 3
    assert top1[-1] > top1[0] > 1 / 30  # of some thirty legal moves
    measured = [row for row in rows if "evaluate/version" in row]
    assert [row["evaluate/version"] for row in measured] == [0, 1, 2, 3]
    for opponent in ("chess:openings/random", "chess:openings+32_nodes/uci:stockfish?nodes=1"):
        assert all(row[f"evaluate/{opponent}/games"] == 8 for row in measured)
    assert len(list((run / "chunks").glob("*.gz"))) == 300
    assert engines() == []
