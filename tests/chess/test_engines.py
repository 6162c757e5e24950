"""UCI engines: what a sound one says arrives; what a hostile one does is noticed, named and ended."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ludus.chess.engines import Analysis, Engine, EngineError, Limit, Line, find_program, parse_engine
from ludus.chess.engines.info import parse_info, parse_option
from ludus.chess.engines.player import draw_move
from ludus.errors import ConfigError

Hostile = Callable[[str], str]
GO = Limit(nodes=10)


def is_gone(pid: int) -> bool:
    """Whether a process is neither alive nor a zombie."""
    return not Path(f"/proc/{pid}").exists()


def test_an_engine_answers_with_its_lines_by_rank(hostile: Hostile) -> None:
    with Engine([hostile("sound")], options={"hash": 8, "Style": "Very Risky", "Show": True}) as engine:
        assert engine.name == "Hostile"
        assert engine.options["Style"].choices == ("Solid", "Very Risky")
        found = engine.analyse([], GO)
        pid = engine.pid
    assert found.best == "e2e4"
    assert [line.moves[0] for line in found.lines] == ["e2e4", "f2f3"]
    assert found.lines[0].wdl == (100, 800, 100)
    assert found.lines[1].mate == -2
    assert is_gone(pid)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("mute", "gave no uciok within 2 s of its handshake"),
        ("dead at birth", "ended with exit code 3 during its handshake; it wrote: cannot find my network"),
    ],
)
def test_an_engine_that_cannot_begin_is_named(hostile: Hostile, how: str, said: str) -> None:
    with pytest.raises(EngineError, match=said):
        Engine([hostile(how)], handshake_s=2.0 if how == "mute" else 60.0)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("hanging", r"gave no bestmove within 0\.5 s of `go nodes 10`"),
        ("dying", "was ended by SIGKILL during `go nodes 10`"),
        ("leaving", "ended with exit code 7 during"),
        ("long line", "wrote a line of more than 65,536 bytes"),
        ("nonsense", "answered `bestmove castle kingside please`, which is no move"),
    ],
)
def test_an_engine_that_fails_in_a_search_is_named_and_ended(hostile: Hostile, how: str, said: str) -> None:
    engine = Engine([hostile(how)], search_s=0.5 if how == "hanging" else 60.0)
    with pytest.raises(EngineError, match=said):
        engine.analyse([], GO)
    assert not engine.is_alive
    assert is_gone(engine.pid)


def test_a_flood_of_lines_ends_in_time(hostile: Hostile) -> None:
    engine = Engine([hostile("flood")], search_s=1.0)
    with pytest.raises(EngineError, match=r"gave no bestmove within 1 s|wrote 200,000 lines"):
        engine.analyse([], GO)
    assert is_gone(engine.pid)


def test_what_an_engine_complains_neither_blocks_nor_piles_up(hostile: Hostile) -> None:
    with Engine([hostile("loud")]) as engine:
        assert engine.analyse([], GO).best == "e2e4"


def test_garbage_between_lines_is_skipped(hostile: Hostile) -> None:
    with Engine([hostile("garbage")]) as engine:
        found = engine.analyse([], GO)
    assert (found.best, [line.rank for line in found.lines]) == ("e2e4", [1, 2])


def test_an_engine_that_does_not_leave_is_killed(hostile: Hostile) -> None:
    engine = Engine([hostile("deaf")])
    engine.close()
    assert is_gone(engine.pid)
    engine.close()


def test_the_children_of_an_engine_end_with_it(hostile: Hostile) -> None:
    engine = Engine([hostile("with child")])
    with pytest.raises(EngineError) as raised:
        engine.analyse([], GO)
    child = int(str(raised.value).rpartition(" ")[2])
    try:
        descriptor = os.pidfd_open(child)
    except ProcessLookupError:
        return
    assert select.select([descriptor], [], [], 60)[0], "the child goes on"
    os.close(descriptor)


def test_an_engine_sees_none_of_our_secrets(hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUDUS_SERVE_TOKEN", "secret")
    with pytest.raises(EngineError, match="it wrote: ") as raised:
        Engine([hostile("environment")]).analyse([], GO)
    assert "PATH" in str(raised.value)
    assert "LUDUS_SERVE_TOKEN" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"Hush": 1}, "has no option 'Hush'; it has Hash, Show, Style"),
        ({"Hash": 100}, "cannot have Hash = '100': expected 1 to 64"),
        ({"Style": "Wild"}, "expected Solid or Very Risky"),
        ({"Show": "yes"}, "expected true or false"),
    ],
)
def test_options_are_checked_against_what_the_engine_declares(
    hostile: Hostile, options: dict[str, str | int | bool], said: str
) -> None:
    with pytest.raises(EngineError, match=said):
        Engine([hostile("sound")], options=options)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("uci:no_such_engine", "no program 'no_such_engine' on PATH or in /usr/games; install it, or write its path"),
        ("uci:/no/such/engine", "no file /no/such/engine"),
        ("uci:/etc/passwd", r"is no program; make it one with: chmod \+x /etc/passwd"),
        ("uci:", "expected an engine"),
        ("uci:sh?nodes=0", "expected nodes from 1 to 1e"),
        ("uci:sh?nodes=ten", "got 'ten'"),
        ("uci:sh?nods=1", "no setting 'nods'; there are nodes, depth"),
        ("uci:sh?nodes", "expected settings such as"),
        ("uci:sh?temperature=nan&multipv=2", "expected temperature from 0"),
        ("uci:sh?temperature=50", "write multipv=4, too"),
    ],
)
def test_a_name_that_means_no_engine_is_refused_with_the_remedy(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_engine(text)


def test_a_name_has_limits_and_options() -> None:
    spec = parse_engine("uci:sh?depth=3&movetime=200&multipv=4&elo=1400&option.Move+Overhead=20&temperature=12.5")
    assert spec.limit.words == " depth 3 movetime 200"
    assert spec.options == {"MultiPV": 4, "UCI_Elo": 1400, "UCI_LimitStrength": True, "Move Overhead": "20"}
    assert spec.temperature == 12.5


def test_a_temperature_draws_from_the_lines_in_proportion() -> None:
    found = Analysis(best="e2e4", lines=(Line(moves=("e2e4",), cp=10), Line(moves=("d2d4",), cp=0, rank=2)))
    rng = np.random.default_rng(0)
    assert {draw_move(found, 0.0, rng) for _ in range(20)} == {"e2e4"}
    drawn = [draw_move(found, 10.0, rng) for _ in range(4000)]
    assert drawn.count("d2d4") / 4000 == pytest.approx(1 / (1 + np.e), abs=0.03)


def test_lines_and_options_are_read_as_engines_write_them() -> None:
    line = parse_info("depth 5 seldepth 7 multipv 2 score mate 3 wdl 1000 0 0 nodes 88 nps 1 time 3 pv a7a8q b1c3")
    assert line == Line(moves=("a7a8q", "b1c3"), rank=2, mate=3, wdl=(1000, 0, 0), depth=5, nodes=88)
    assert line.score == 99_997
    assert parse_info("string pv e2e4") is None
    option = parse_option("name UCI_Elo type spin default 1350 min 1350 max 2850")
    assert option is not None
    assert (option.name, option.default, option.low, option.high) == ("UCI_Elo", "1350", 1350, 2850)
    empty = parse_option("name SyzygyPath type string default <empty>")
    assert empty is not None
    assert empty.default == "<empty>"


def test_stockfish_searches_with_wdl_and_several_lines(stockfish: str) -> None:
    with Engine([stockfish], options={"UCI_ShowWDL": True, "MultiPV": 3, "Hash": 1}) as engine:
        first = engine.analyse(["e2e4", "e7e5"], Limit(nodes=200))
        engine.new_game()
        assert engine.analyse(["e2e4", "e7e5"], Limit(nodes=200)) == first
        mated = engine.analyse([], Limit(depth=1), fen="7k/5KQ1/8/8/8/8/8/8 b - - 0 1")
    assert first.best == first.lines[0].moves[0]
    assert len(first.lines) == 3
    assert all(line.wdl and sum(line.wdl) == 1000 for line in first.lines)
    assert mated.best is None


def test_engines_are_found_where_systems_put_games(stockfish: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not os.path.isdir("/usr/games"):
        pytest.skip("this system has no /usr/games")
    monkeypatch.setenv("PATH", "/bin")
    assert find_program("stockfish") == Path(stockfish)
