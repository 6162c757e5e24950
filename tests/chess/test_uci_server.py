"""A network as a UCI engine: under an unmodified client, and against bad input."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import chess
import chess.engine
import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("ludus_chess")
from ludus_chess import Board

from ludus.chess.chunk_files import read_chunks
from ludus.chess.chunk_writer import ChunkWriter
from ludus.chess.chunks import Checked, check, game_of
from ludus.chess.evaluators import Evaluated, open_evaluator
from ludus.chess.selfplay import SelfplaySettings, selfplay
from ludus.chess.thinking import Budget, think
from ludus.chess.uci_server import UciServer
from ludus.errors import ConfigError

MATED = "rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3"
MATE_IN_ONE = "rnbqkbnr/pppp1ppp/8/4p3/6P1/5P2/PPPPP2P/RNBQKBNR b KQkq - 0 2"


class Fixed:
    """A network that prefers one policy index, and thinks all positions alike."""

    name, input_format = "fixed", 1

    def __init__(self, prefers: int = 0, value: tuple[float, float, float] = (0.3, 0.5, 0.2)) -> None:
        self.prefers, self.value = prefers, value
        self.asked = threading.Event()

    def prepare(self, rows: int) -> None:
        pass

    def __call__(self, planes: NDArray[np.float32]) -> Evaluated:
        self.asked.set()
        logits = np.zeros((len(planes), 1858), np.float32)
        logits[:, self.prefers] = 5.0
        return Evaluated(logits, np.tile(np.array(self.value, np.float32), (len(planes), 1)), None)


def server(nodes: int = 1, evaluator: Any = None) -> tuple[UciServer, list[str]]:
    said: list[str] = []
    return UciServer(evaluator or Fixed(), nodes=nodes, say=said.append), said


def ask(*lines: str, nodes: int = 1, evaluator: Any = None) -> list[str]:
    engine, said = server(nodes, evaluator)
    for line in lines:
        engine.handle(line)
        engine.wait()
    return said


def test_the_policy_alone_plays_its_likeliest_move_with_its_value() -> None:
    said = ask("position startpos moves e2e4 e7e5", "go nodes 1", evaluator=Fixed(Board().index_of("g1f3")))
    assert said[-1] == "bestmove g1f3"
    assert "score cp" in said[0]
    assert " wdl 300 500 200 pv g1f3" in said[0]


def test_a_search_finds_what_the_policy_does_not() -> None:
    lines = (f"position fen {MATE_IN_ONE}", "go nodes 200")
    assert ask(*lines)[-1] == "bestmove d8h4"
    assert ask(f"position fen {MATE_IN_ONE}", "go", nodes=200)[-1] == "bestmove d8h4"


class Counting(Fixed):
    """Counts the positions that it is asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = 0

    def __call__(self, planes: NDArray[np.float32]) -> Evaluated:
        self.rows += len(planes)
        return super().__call__(planes)


def test_a_position_that_goes_on_keeps_its_part_of_the_tree() -> None:
    opening = ("position startpos moves e2e4", "go nodes 200")
    said = ask(*opening)
    line = said[-2].split(" pv ")[1].split()
    onward = (f"position startpos moves e2e4 {line[0]} {line[1]}", "go nodes 50")
    kept, afresh = Counting(), Counting()
    assert ask(*opening, *onward, evaluator=kept)[-1].startswith("bestmove ")
    assert ask(*opening, "ucinewgame", *onward, evaluator=afresh)[-1].startswith("bestmove ")
    assert kept.rows < afresh.rows


def test_another_position_begins_an_empty_tree() -> None:
    other = ("position startpos moves d2d4 d7d5", "go nodes 50")
    both, alone = Counting(), Counting()
    ask("position startpos moves e2e4", "go nodes 200", *other, evaluator=both)
    ask("position startpos moves e2e4", "go nodes 200", "ucinewgame", *other, evaluator=alone)
    assert both.rows == alone.rows


def test_a_depth_ends_the_search_when_the_best_line_is_so_long() -> None:
    said = ask("position startpos", "go depth 3", nodes=1_000_000)
    assert said[-1].startswith("bestmove ")
    assert int(said[-2].split()[2]) >= 3
    assert int(said[-2].split(" nodes ")[1].split()[0]) < 100_000


def test_a_mate_that_is_asked_for_is_found_and_told() -> None:
    said = ask(f"position fen {MATE_IN_ONE}", "go mate 1", nodes=1_000_000)
    assert said[-1] == "bestmove d8h4"
    assert " score mate 1 " in said[-2]


def test_a_search_whose_end_is_proven_answers_before_its_last_visit() -> None:
    said = ask(f"position fen {MATE_IN_ONE}", "go depth 40", nodes=1_000_000)
    assert said[-1] == "bestmove d8h4"
    assert int(said[-2].split(" nodes ")[1].split()[0]) < 100_000


def test_a_network_cannot_move_what_is_mated() -> None:
    assert ask(f"position fen {MATED}", "go nodes 5") == ["bestmove (none)"]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "   ",
        "nonsense",
        "position",
        "position fen",
        "position fen 8/8/8/8/8/8/8/8 w - - 0 1",
        "position startpos moves e2e5",
        "position startpos moves e2e4 e2e4",
        "position fen " + "x" * 10_000,
        "setoption",
        "setoption name",
        "setoption name Nodes value many",
        "setoption name Nodes value 99999999999999999999999",
        "setoption name Unknown value 1",
        "stop",
        "ponderhit",
        "debug on",
        "register later",
        "\x00\udcff",
        "go_nodes 1",
    ],
)
def test_bad_input_is_ignored_and_the_game_goes_on(line: str) -> None:
    said = ask("position startpos moves e2e4", line, "isready", "go nodes 1")
    assert next(each for each in said if not each.startswith("info")) == "readyok"
    assert sum(each.startswith("bestmove") for each in said) == 1
    chess.Board("rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1").parse_uci(said[-1].split()[1])


def test_unknown_words_before_a_command_are_skipped() -> None:
    assert ask("joho isready") == ["readyok"]


@pytest.mark.parametrize(
    "limit",
    [
        "movetime 1",
        "wtime 100 btime 100 winc 0 binc 0",
        "depth 3",
        "mate 2",
        "nodes -4",
        "nodes x",
        "wtime -5 btime -5",
    ],
)
def test_every_kind_of_go_gets_one_answer(limit: str) -> None:
    said = ask(f"go {limit}", nodes=20)
    assert said[-1].startswith("bestmove ")
    assert sum(each.startswith("bestmove") for each in said) == 1


@pytest.mark.parametrize("word", ["infinite", "ponder wtime 1000 btime 1000"])
@pytest.mark.parametrize("nodes", [1, 50])
def test_an_endless_search_answers_when_it_is_stopped(word: str, nodes: int) -> None:
    evaluator = Fixed()
    engine, said = server(nodes, evaluator)
    engine.handle(f"go {word}")
    assert evaluator.asked.wait(60)
    assert not any(line.startswith("bestmove") for line in said)
    engine.handle("isready")
    assert "readyok" in said
    engine.handle("stop" if word == "infinite" else "ponderhit")
    assert said[-1].startswith("bestmove")
    engine.handle("stop")
    assert sum(line.startswith("bestmove") for line in said) == 1


def test_a_second_go_ends_the_first() -> None:
    engine, said = server(50)
    engine.handle("go infinite")
    engine.serve(["go nodes 1", "quit", "isready"])
    assert sum(line.startswith("bestmove") for line in said) == 2
    assert "readyok" not in said


def test_only_the_moves_that_are_asked_for_are_chosen_from() -> None:
    assert ask("go nodes 30 searchmoves a2a3 h9h1")[-1] == "bestmove a2a3"


def test_several_lines_are_ranked() -> None:
    said = ask("setoption name MultiPV value 3", "setoption name UCI_ShowWDL value false", "go nodes 40")
    assert [line.split()[4] for line in said[-4:-1]] == ["1", "2", "3"]
    assert "wdl" not in said[-2]


def test_a_search_that_fails_still_answers() -> None:
    class Broken(Fixed):
        def __call__(self, planes: NDArray[np.float32]) -> Evaluated:
            raise RuntimeError("no memory left")

    said = ask("go nodes 5", evaluator=Broken())
    assert "info string search failed: RuntimeError: no memory left" in said
    assert said[-1].startswith("bestmove ")


def test_selfplay_writes_sound_chunks_and_the_same_again(tmp_path: Path) -> None:
    settings = SelfplaySettings(visits=12, parallel=3, max_plies=16)
    for name in ("a", "b"):
        with ChunkWriter(folder=tmp_path / name, prefix="net") as writer:
            tally = selfplay(Fixed(), settings, writer, games=4, seed=5)  # type: ignore[arg-type]
        assert (tally.games, tally.positions) == (4, 64)
    checked = Checked()
    assert list(check([tmp_path / "a"], checked)) == []
    assert checked.positions == 64
    names = [sorted(path.name for path in (tmp_path / name).glob("*.gz")) for name in "ab"]
    assert names[0] == names[1] == [f"net_{number:09d}.gz" for number in range(4)]
    for name in names[0]:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    for chunk in read_chunks([tmp_path / "a"]):
        game = game_of(chunk)
        assert (game["visits"] >= 12).all()
        assert np.allclose(game["orig_q"], 0.1, atol=1e-5)
        assert (game["result_d"] == 1).all()
        assert game["plies_left"][0] >= 15


@pytest.mark.parametrize("input_format", [2, 4, 5, 132])
def test_selfplay_writes_the_input_format_that_its_network_learns_from(tmp_path: Path, input_format: int) -> None:
    network, settings = Fixed(), SelfplaySettings(visits=3, parallel=2, max_plies=60)
    network.input_format = input_format
    with ChunkWriter(folder=tmp_path, prefix="net") as writer:
        selfplay(network, settings, writer, games=2)  # type: ignore[arg-type]
    checked = Checked()
    assert list(check([tmp_path], checked)) == []
    assert checked.positions > 20
    for chunk in read_chunks([tmp_path]):
        assert (game_of(chunk)["input_format"] == input_format).all()


def test_a_network_that_learns_is_asked_for_after_each_game(tmp_path: Path) -> None:
    later = iter([Fixed(value=(0.6, 0.2, 0.2)), Fixed(value=(0.8, 0.1, 0.1))])
    settings = SelfplaySettings(visits=2, parallel=1, max_plies=4)
    with ChunkWriter(folder=tmp_path, prefix="net") as writer:
        selfplay(Fixed(), settings, writer, games=2, newest=lambda: next(later))  # type: ignore[arg-type, return-value]
    first, second = (game_of(chunk)["orig_q"] for chunk in read_chunks([tmp_path]))
    assert np.allclose(first, 0.1, atol=1e-5)
    assert np.allclose(second, 0.4, atol=1e-5)


def test_a_search_stops_when_it_is_told() -> None:
    found = think(Fixed(), Board(), Budget(nodes=1_000_000), lambda: True, lambda _: None)  # type: ignore[arg-type]
    assert found.nodes < 1000


def test_what_is_no_network_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        open_evaluator(str(tmp_path / "none.pb.gz"))
    with pytest.raises(ConfigError, match="neither a run nor a network"):
        open_evaluator(str(tmp_path))


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network with random weights, as lc0 would load it."""
    from ludus.chess.lc0_format import write_network
    from ludus.config.sections.chess import ChessResidualConfig
    from ludus.policies import PolicyShape

    config = ChessResidualConfig(kind="chess_residual", blocks=1, filters=8)
    shape = PolicyShape(
        network=config, observation_shape=(112, 8, 8), actions=1858, layout="channels_first", games=("chess:standard",)
    )
    weights = {name: np.asarray(value) for name, value in shape.build().init(3).items()}
    path = tmp_path_factory.mktemp("network") / "small.pb.gz"
    write_network(path, config, weights)
    return path


def test_a_person_at_a_terminal_is_told_what_to_type(network: Path) -> None:
    ours, terminal = pty.openpty()
    command = [sys.executable, "-m", "ludus.cli.app", "chess", "uci", str(network)]
    with subprocess.Popen(command, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as engine:
        os.close(terminal)
        assert engine.stderr is not None
        assert engine.stdout is not None
        while b"listens for UCI commands" not in (line := engine.stderr.readline()):
            assert line
        os.write(ours, b"isready\nquit\n")
        assert engine.stdout.read() == b"readyok\n"
    os.close(ours)
    assert engine.returncode == 0


def test_whole_games_under_an_unmodified_client(network: Path) -> None:
    command = [sys.executable, "-m", "ludus.cli.app", "chess", "uci", str(network), "--nodes", "8"]
    rng = np.random.default_rng(0)
    with chess.engine.SimpleEngine.popen_uci(command, timeout=200) as engine:
        assert engine.id["name"] == "ludus small"
        limits = [chess.engine.Limit(nodes=1), chess.engine.Limit(nodes=6), chess.engine.Limit(time=0.05)]
        board = chess.Board()
        while not board.is_game_over(claim_draw=True) and board.ply() < 120:
            if board.ply() % 2:
                moves = list(board.legal_moves)
                board.push(moves[rng.integers(len(moves))])
                continue
            played = engine.play(board, limits[board.ply() // 2 % 3], info=chess.engine.INFO_ALL)
            assert played.move in board.legal_moves
            assert played.info["wdl"].relative.total() == 1000
            board.push(played.move)
        lines = engine.analyse(board if board.legal_moves else chess.Board(), chess.engine.Limit(nodes=10), multipv=3)
        assert [line["multipv"] for line in lines] == list(range(1, len(lines) + 1))
        with engine.analysis(chess.Board()) as analysis:
            for info in analysis:
                if info.get("nodes", 0) >= 1:
                    break
            analysis.stop()
            assert analysis.wait().move in chess.Board().legal_moves
