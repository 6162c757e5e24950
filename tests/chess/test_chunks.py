"""Games to learn from: engines that play themselves, PGN, and what is said about chunks that are not sound."""

from __future__ import annotations

import gzip
import io
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import chess.pgn
import numpy as np
import pytest

pytest.importorskip("ludus_chess")
from ludus_chess.records import V6_DTYPE

from ludus.chess import chunks
from ludus.chess.chunk_files import Chunk, find_files, inflate, read_chunks
from ludus.chess.chunk_writer import ChunkWriter
from ludus.chess.engine_games import GameSettings, value_of
from ludus.chess.engines import EngineError, Limit, Line, parse_engine
from ludus.chess.play_engine import play_engine
from ludus.errors import ConfigError

DATA = Path(__file__).parents[3] / "shared" / "data"
SHORT = GameSettings(limit=Limit(nodes=30), max_plies=24)
PGN = """[Event "a"]
[Result "1-0"]

1. e4 e5 2. Nf3 Nc6 3. Bc4 Nf6 4. O-O Bc5 {a comment} 5. d3 (5. c3 Nxe4) O-O 1-0

[Event "b"]
[Result "0-1"]

1. f3 e5 2. g4 Qh4# 0-1

[Event "no result"]
[Result "*"]

1. e4 *

[Event "illegal"]
[Result "1-0"]

1. e4 e5 2. Ke3 1-0
"""


def ludus(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ludus.cli.app", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


def written(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def play(folder: Path, engine: str, games: int, **writing: int) -> dict[str, bytes]:
    with ChunkWriter(folder=folder, prefix="sf", **writing) as writer:
        play_engine(parse_engine(engine), SHORT, writer, games=games, processes=1, seed=3)
    return written(folder)


def test_an_engine_writes_games_that_are_sound_and_the_same_again(stockfish: str, tmp_path: Path) -> None:
    engine = "stockfish?nodes=30&multipv=4"
    first = play(tmp_path / "a", engine, 2)
    assert list(first) == ["sf_000000000.gz", "sf_000000001.gz"]
    assert play(tmp_path / "b", engine, 2) == first
    with ChunkWriter(folder=tmp_path / "c", prefix="sf") as writer:
        play_engine(parse_engine(engine), SHORT, writer, games=2, processes=2, seed=3)
    assert written(tmp_path / "c") == first, "however many engines play"
    again = play(tmp_path / "a", engine, 1)
    assert list(again) == [*first, "sf_000000002.gz"]
    checked = chunks.Checked()
    assert list(chunks.check([tmp_path / "a"], checked)) == []
    assert checked.chunks == 3
    games = [chunks.game_of(chunk) for chunk in read_chunks([tmp_path / "a"])]
    assert all((np.abs(game["probabilities"].clip(0).sum(1) - 1) < 1e-3).all() for game in games)
    assert all((game["best_q"] <= 1).all() and (game["visits"] > 0).all() for game in games)
    assert len({game["played_idx"].tobytes() for game in games}) == 3


def test_the_moves_and_boards_of_a_chunk_are_the_games(stockfish: str, tmp_path: Path) -> None:
    play(tmp_path, "stockfish?nodes=30&multipv=2", 1)
    (chunk,) = read_chunks([tmp_path])
    board = chess.Board()
    for record in chunks.game_of(chunk):
        facts = chunks.describe(record)
        assert facts["to_move"] == ("white" if board.turn else "black")
        assert facts["legal"] == board.legal_moves.count()
        shown = [line.split("  ")[1] for line in chunks.board_of(record).splitlines()[:8]]
        assert shown == str(board).splitlines()
        move = chess.Move.from_uci(facts["played"])
        if board.is_castling(move) or move not in board.legal_moves:
            side = "O-O" if chess.square_file(move.to_square) > 4 else "O-O-O"
            move = board.parse_san(side)
        board.push(move)


def test_games_go_into_tars_and_numbers_go_on(stockfish: str, tmp_path: Path) -> None:
    assert list(play(tmp_path, "stockfish?nodes=10", 3, games_per_tar=2)) == ["sf_000000001.tar", "sf_000000002.tar"]
    assert len(list(read_chunks([tmp_path]))) == 3
    assert list(play(tmp_path, "stockfish?nodes=10", 1, games_per_tar=2))[-1] == "sf_000000003.tar"


def test_games_without_end_stop_at_a_signal_and_leave_nothing_behind(stockfish: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = [
        "chess",
        "play-engine",
        "stockfish?nodes=10",
        "--forever",
        "--max-plies",
        "30",
        "--out",
        str(out),
        "--processes",
        "2",
    ]
    process = subprocess.Popen([sys.executable, "-m", "ludus.cli.app", *arguments], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 200
    while not list(out.glob("*.gz")):
        assert time.monotonic() < deadline
        assert process.poll() is None
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    others = [each for each in Path(f"/proc/{process.pid}/task").iterdir() if each.name != str(process.pid)]
    children += [child for each in others for child in (each / "children").read_text().split()]
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=200)
    assert process.returncode == 0, said
    assert said.rstrip().endswith("stopped")
    assert len(children) == 2
    assert not [child for child in children if Path(f"/proc/{child}").exists()]
    assert list(chunks.check([out], chunks.Checked())) == []
    assert not [path for path in out.iterdir() if path.name.startswith(".tmp")]


def test_two_writers_need_two_prefixes(tmp_path: Path) -> None:
    with ChunkWriter(folder=tmp_path, prefix="a"), ChunkWriter(folder=tmp_path, prefix="b"):
        script = "import sys; from pathlib import Path; from ludus.chess.chunk_writer import ChunkWriter; ChunkWriter(folder=Path(sys.argv[1]), prefix='a').__enter__()"
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False
        )
    assert "give this one another --prefix" in done.stderr


@pytest.mark.parametrize(
    ("how", "said"), [("dying", "SIGKILL"), ("illegal", "not legal"), ("dead at birth", "my network")]
)
def test_an_engine_that_fails_again_and_again_ends_the_games_with_its_reason(
    hostile: Callable[[str], str], tmp_path: Path, how: str, said: str
) -> None:
    spec = parse_engine(hostile(how))
    with ChunkWriter(folder=tmp_path / "out", prefix="x") as writer, pytest.raises(EngineError, match=said):
        play_engine(spec, SHORT, writer, games=1)
    assert written(tmp_path / "out") == {}


def test_scores_without_wdl_become_values() -> None:
    q, d = value_of(Line(moves=("e2e4",), cp=400))
    assert q == pytest.approx(1 - 2 / 11)
    assert 0 < d < 1 - q + 1e-9
    assert value_of(Line(moves=("e2e4",), mate=-3)) == (-1.0, 0.0)
    assert value_of(Line(moves=("e2e4",), cp=0, wdl=(300, 500, 200))) == pytest.approx((0.1, 0.5))


def test_pgn_becomes_chunks_and_bad_games_are_named(tmp_path: Path) -> None:
    (tmp_path / "games.pgn").write_text(PGN)
    done = ludus("chess", "chunks", "from-pgn", tmp_path / "games.pgn", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "2 games, 14 positions" in done.stdout
    assert "2 games left out" in done.stdout
    assert "game 3 (line 11): has no result" in done.stderr
    assert "game 4" in done.stderr
    assert ludus("chess", "chunks", "check", tmp_path / "out").returncode == 0
    loaded = [chunks.game_of(chunk) for chunk in read_chunks([tmp_path / "out"])]
    for game in loaded:
        source = chess.pgn.read_game(io.StringIO(PGN)) if len(game) == 10 else None
        if source is not None:
            assert [len(game), chunks.white_result(game[3])] == [len(list(source.mainline_moves())), "1-0"]
        assert (game["probabilities"].max(1) == 1).all()
    stats = ludus("chess", "chunks", "stats", tmp_path / "out")
    assert "results               0-1: 1, 1-0: 1" in stats.stdout
    dump = ludus(
        "chess", "chunks", "dump", next(iter(sorted((tmp_path / "out").glob("*.gz")))), "--first", 7, "--count", 1
    )
    assert "played        f8c5" in dump.stdout
    assert "5  . . b . p . . ." not in dump.stdout, "the board is the one before the move"


def sound_game() -> bytes:
    return chunks.encode_played(chess.STARTING_FEN, ["e2e4", "e7e5", "g1f3", "b8c6"], "1-0")


def changed(**fields: object) -> bytes:
    game = np.frombuffer(sound_game(), V6_DTYPE).copy()
    for name, value in fields.items():
        game[name][1] = value
    return game.tobytes()


UNSOUND: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "empty file"),
    "not gzip": (lambda: b"not gzip at all", "gzip: "),
    "truncated": (lambda: gzip.compress(sound_game())[:-20], "gzip: truncated"),
    "a byte short": (lambda: gzip.compress(sound_game()[:-1]), "."),
    "unknown version": (lambda: gzip.compress(b"\xff" * 8356), "version"),
    "bomb": (lambda: gzip.compress(bytes(65 << 20), 1), "inflates to more than"),
    "NaN": (lambda: gzip.compress(changed(root_q=np.nan, best_q=2.0)), "record 1 "),
    "played an illegal move": (lambda: gzip.compress(changed(played_idx=5)), "record 1 "),
    "probabilities": (lambda: gzip.compress(changed(probabilities=0.5)), "record 1 "),
    "a position is missing": (
        lambda: gzip.compress(np.frombuffer(sound_game(), V6_DTYPE)[[0, 2]].tobytes()),
        "record 1",
    ),
}
"""Made when a test runs: a name that holds compressed bytes would differ by the second in which it was collected."""


@pytest.mark.parametrize("kind", UNSOUND)
def test_unsound_chunks_are_refused_with_file_offset_and_reason(kind: str, tmp_path: Path) -> None:
    pack, said = UNSOUND[kind]
    (tmp_path / "good.gz").write_bytes(gzip.compress(sound_game()))
    (tmp_path / "bad.gz").write_bytes(pack())
    checked = chunks.Checked()
    (problem,) = chunks.check([tmp_path], checked)
    assert problem.startswith(f"{tmp_path / 'bad.gz'}: offset 0")
    assert said in problem
    assert (checked.chunks, checked.refused) == (2, 1)


def test_hostile_tars_keep_what_is_good_and_write_nothing(tmp_path: Path) -> None:
    packed = gzip.compress(sound_game())

    def member(tar: tarfile.TarFile, name: str, data: bytes = b"", **fields: object) -> None:
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        for field, value in fields.items():
            setattr(entry, field, value)
        tar.addfile(entry, io.BytesIO(data) if entry.isreg() else None)

    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        member(tar, "good.gz", packed)
        member(tar, "../../escape.gz", packed)
        member(tar, "link.gz", type=tarfile.SYMTYPE, linkname="/etc/passwd")
        member(tar, "device.gz", type=tarfile.CHRTYPE)
        member(tar, "half.gz", packed[:50])
    data = bytearray((tmp_path / "a.tar").read_bytes())
    (tmp_path / "b.tar").write_bytes(data[: len(data) // 3])
    huge = tarfile.TarInfo("huge.gz")
    huge.size = 8 << 30
    (tmp_path / "c.tar").write_bytes(huge.tobuf() + bytes(1024))
    (tmp_path / "d.tar").write_bytes(os.urandom(4096))
    checked = chunks.Checked()
    problems = list(chunks.check([tmp_path], checked))
    assert (checked.positions, checked.repeated) == (4, 3)
    assert any("the same game as" in problem for problem in problems)
    assert sum("no ordinary file" in problem for problem in problems) == 4
    assert any("too many for one game" in problem for problem in problems)
    assert any(problem.startswith(str(tmp_path / "d.tar")) for problem in problems)
    assert not list(tmp_path.parent.glob("escape*"))


def test_a_missing_path_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file or directory"):
        list(find_files([tmp_path / "none"]))
    assert ludus("chess", "chunks", "check", tmp_path / "none").returncode == 2


def test_gzip_of_several_members_is_one_game() -> None:
    game = sound_game()
    assert inflate(gzip.compress(game[:8356]) + gzip.compress(game[8356:])) == (game, "")
    assert chunks.problem_of(Chunk(source="x", offset=0, records=game)) == ""


def test_real_chunks_of_the_engine_are_sound() -> None:
    if not DATA.is_dir():
        pytest.skip("../shared/data is not here")
    checked = chunks.Checked()
    assert list(chunks.check(sorted((DATA / "v6").glob("*.gz"))[:5], checked)) == []
    assert checked.chunks == 5
