"""Engines to test with: the real one where it is installed, and one that does whatever a test tells it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ludus.chess.engines import find_program
from ludus.errors import ConfigError

HOSTILE = """#!{python} -I
import os, sys, time
how = "{how}"
def say(*words):
    print(*words, flush=True)
def hang():
    while True: time.sleep(3600)
if how == "dead at birth":
    sys.stderr.write("cannot find my network\\n"); sys.exit(3)
while True:
    line = sys.stdin.readline()
    if not line or line.strip() == "quit":
        if how == "deaf": hang()
        break
    word = line.split()[0]
    if word == "uci":
        if how == "mute": hang()
        if how == "chatty":
            while True: say("id name chatty")
        say("nonsense before"); say("id name Hostile"); say("option name Hash type spin default 1 min 1 max 64")
        say("option name Style type combo default Solid var Solid var Very Risky"); say("option name Show type check default false")
        say("option"); say("option name type spin min x"); say("uciok")
    elif word == "isready":
        say("readyok")
    elif word == "go":
        if how == "hanging": hang()
        if how == "dying": os.kill(os.getpid(), 9)
        if how == "leaving": sys.exit(7)
        if how == "flood":
            while True: say("info depth 1 score cp 1 pv e2e4")
        if how == "long line":
            while True: sys.stdout.write("x" * 65536); sys.stdout.flush()
        if how == "loud":
            sys.stderr.write("y" * 5_000_000); sys.stderr.flush()
        if how == "nonsense":
            say("bestmove castle kingside please"); continue
        if how == "illegal":
            say("bestmove e2e5"); continue
        if how == "none":
            say("bestmove (none)"); continue
        if how == "environment":
            sys.stderr.write(" ".join(sorted(os.environ))); sys.stderr.flush(); os._exit(1)
        if how == "with child":
            child = os.fork()
            if child == 0: os.close(1); hang()
            sys.stderr.write(str(child)); sys.stderr.flush(); os._exit(1)
        if how == "garbage":
            for line in ("info", "info pv", "info score cp", "info depth pv e2e4", "info depth 9{nines} pv e2e4", "info score cp NaN pv e2e4",
                         "info multipv 999999 score cp 3 pv e2e4", "info wdl 1 2 pv e2e4", "info multipv -1 pv e2e4", "\\x00\\xff", "bestmoves e2e4"):
                say(line)
        say("info depth 3 multipv 1 score cp 31 wdl 100 800 100 nodes 12 pv e2e4 e7e5")
        say("info depth 3 multipv 2 score mate -2 pv f2f3 e7e5")
        say("info depth 4 multipv 1 score cp 99 lowerbound pv d2d4")
        say("bestmove e2e4 ponder e7e5")
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Callable[[str], str]:
    """Path of an engine that behaves as it is told."""

    def make(how: str) -> str:
        path = tmp_path / f"{how.replace(' ', '_')}.py"
        path.write_text(
            HOSTILE.replace("{python}", sys.executable).replace("{how}", how).replace("{nines}", "9" * 5000)
        )
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture(scope="session")
def stockfish() -> str:
    """Path of the real engine."""
    try:
        return str(find_program("stockfish"))
    except ConfigError:
        pytest.skip("stockfish is not installed: make system-packages")
