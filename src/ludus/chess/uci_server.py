"""A network as a UCI engine, for every chess program.

Invariants: stdout carries UCI alone. A line that is not understood is ignored, and a position that is not sound leaves
the one before in place, as the protocol asks. Every `go` is answered with exactly one `bestmove`; one that arrives
while a search runs ends that search first. A position that follows from the last one searched keeps its part of the
tree, until `ucinewgame`.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ludus_chess import START_FEN, Board

from ludus.chess.evaluators import Evaluator
from ludus.chess.thinking import BATCH, Budget, KeptTree, Thought, Thoughts, think

MOST_NODES = 10_000_000
CP_PER_DECADE = 400.0
MOST_CP = 10_000
MOVES_LEFT = 30
"""Moves that a clock is divided by."""
OVERHEAD_S = 0.05
NUMBERS = ("nodes", "movetime", "wtime", "btime", "winc", "binc", "movestogo", "depth", "mate")
OPTIONS = {
    "Nodes": "spin default {nodes} min 1 max 10000000",
    "MultiPV": "spin default 1 min 1 max 256",
    "UCI_ShowWDL": "check default true",
    "Ponder": "check default false",
    "Hash": "spin default 16 min 1 max 65536",
    "Threads": "spin default 1 min 1 max 1",
}

Say = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class Settings:
    """What `setoption` can change."""

    nodes: int
    multipv: int = 1
    shows_wdl: bool = True


class UciServer:
    """Takes lines with `handle`, answers through `say`. Searches run in a thread of their own."""

    def __init__(self, evaluator: Evaluator, *, nodes: int, say: Say) -> None:
        self._evaluator = evaluator
        self._settings = Settings(nodes=nodes)
        self._say = say
        self._board = Board()
        self._start, self._moves = "startpos", tuple[str, ...]()
        self._tree = KeptTree()
        self._prepared: set[int] = set()
        self._stop = threading.Event()
        self._held = False
        """Whether the search must not answer before `stop` or `ponderhit`."""
        self._thread: threading.Thread | None = None

    def serve(self, lines: Iterable[str]) -> None:
        """Answer lines until `quit` or their end."""
        for line in lines:
            if not self.handle(line):
                break
        self._finish()

    def wait(self) -> None:
        """Wait until the search at hand, if there is one, has answered by itself."""
        if self._thread is not None:
            self._thread.join()

    def handle(self, line: str) -> bool:
        """Answer one line; False for `quit`. Unknown words before a command are skipped, as the protocol asks."""
        words = line.split()
        commands: dict[str, Callable[[Sequence[str]], None]] = {
            "uci": lambda _: self._introduce(),
            "isready": lambda _: self._prepare(),
            "ucinewgame": lambda _: self._new_game(),
            "setoption": self._set,
            "position": self._place,
            "go": self._go,
            "stop": lambda _: self._finish(),
            "ponderhit": lambda _: self._finish(),
        }
        for place, word in enumerate(words):
            if word == "quit":
                return False
            if word in commands:
                commands[word](words[place + 1 :])
                break
        return True

    # -- commands ---------------------------------------------------------------------------------------------------

    def _introduce(self) -> None:
        self._say(f"id name ludus {self._evaluator.name}")
        self._say("id author the ludus authors")
        for name, kind in OPTIONS.items():
            self._say(f"option name {name} type {kind.format(nodes=self._settings.nodes)}")
        self._say("uciok")

    def _prepare(self) -> None:
        """Compile before the first clock runs. A search that runs has done so already."""
        wanted = {1, BATCH if self._settings.nodes > 1 else 1} - self._prepared
        if self._thread is None:
            for rows in sorted(wanted):
                self._evaluator.prepare(rows)
                self._prepared.add(rows)
        self._say("readyok")

    def _new_game(self) -> None:
        self._finish()
        self._tree.forget()
        self._board, self._start, self._moves = Board(), "startpos", ()

    def _set(self, words: Sequence[str]) -> None:
        match = re.fullmatch(r"name\s+(.+?)(?:\s+value\s+(.*))?", " ".join(words), flags=re.IGNORECASE)
        name, value = (match[1].casefold(), (match[2] or "").strip()) if match else ("", "")
        self._finish()
        if name in ("nodes", "multipv") and (number := _integer(value)):
            most = MOST_NODES if name == "nodes" else 256
            setattr(self._settings, name, max(1, min(most, number)))
        elif name == "uci_showwdl" and value in ("true", "false"):
            self._settings.shows_wdl = value == "true"

    def _place(self, words: Sequence[str]) -> None:
        self._finish()
        cut = words.index("moves") if "moves" in words else len(words)
        place, moves = words[:cut], words[cut + 1 :]
        try:
            if place[:1] == ["startpos"]:
                board = Board(START_FEN)
            elif place[:1] == ["fen"]:
                board = Board(" ".join(place[1:]))
            else:
                return
            for move in moves:
                board.push(move)
        except ValueError as error:
            self._say(f"info string position ignored: {' '.join(str(error).split())}")
            return
        self._board, self._start, self._moves = board, " ".join(place), tuple(moves)

    def _go(self, words: Sequence[str]) -> None:
        self._finish()
        self._stop.clear()
        asked = {word: _integer(words[i + 1]) for i, word in enumerate(words[:-1]) if word in NUMBERS}
        self._held = "infinite" in words or "ponder" in words
        budget = self._budget({name: number for name, number in asked.items() if number is not None}, words)
        self._thread = threading.Thread(target=self._think, args=(self._board.copy(), budget), daemon=True)
        self._thread.start()

    def _budget(self, asked: dict[str, int], words: Sequence[str]) -> Budget:
        nodes, ends = asked.get("nodes"), None
        colour = "w" if self._board.white_to_move else "b"
        if "movetime" in asked:
            ends = time.monotonic() + max(asked["movetime"] / 1000 - OVERHEAD_S, 0.0)
        elif f"{colour}time" in asked:
            left = max(asked[f"{colour}time"] / 1000 - OVERHEAD_S, 0.0)
            moves = min(max(asked.get("movestogo", MOVES_LEFT), 1), MOVES_LEFT)
            ends = time.monotonic() + min(left / moves + 0.7 * asked.get(f"{colour}inc", 0) / 1000, left / 2)
        if nodes is None:
            # A clock or a depth alone lets the search go on; so does `infinite`. A mate may not be there, and policy
            # alone stays policy alone.
            goes_on = ends is not None or self._held or "depth" in asked
            nodes = MOST_NODES if goes_on and self._settings.nodes > 1 else self._settings.nodes
        only = words[words.index("searchmoves") + 1 :] if "searchmoves" in words else ()
        legal = set(self._board.legal_moves())
        return Budget(
            nodes=max(1, min(MOST_NODES, nodes)),
            ends=ends,
            depth=asked.get("depth"),
            mate=asked.get("mate"),
            only=[move for move in only if move in legal],
        )

    # -- the search -------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """End the search at hand, if there is one; it answers."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _think(self, board: Board, budget: Budget) -> None:
        best = "(none)"
        try:
            if board.legal_moves():
                search = (
                    self._tree.search(self._evaluator, board, self._start, self._moves) if budget.nodes > 1 else None
                )
                found = think(self._evaluator, board, budget, self._stop.is_set, self._report, search)
                self._report(found)
                best = found.ranked[0].moves[0]
        except Exception as error:  # a search that dies in silence would leave the other side waiting
            self._say(f"info string search failed: {type(error).__name__}: {' '.join(str(error).split())}")
            best = (board.legal_moves() or [best])[0]
        if self._held:
            self._stop.wait()
        self._say(f"bestmove {best}")

    def _report(self, found: Thoughts) -> None:
        speed = int(found.nodes / max(found.seconds, 1e-3))
        depth = max(len(found.ranked[0].moves), 1)
        for rank, thought in enumerate(found.ranked[: self._settings.multipv], 1):
            score = f"cp {_centipawns(thought.q)}" if thought.mate is None else f"mate {thought.mate}"
            wdl = f" wdl {_permille(thought)}" if self._settings.shows_wdl else ""
            self._say(
                f"info depth {depth} multipv {rank} nodes {found.nodes} nps {speed} time {int(1000 * found.seconds)} "
                f"score {score}{wdl} pv {' '.join(thought.moves)}"
            )


def _centipawns(q: float) -> int:
    expected = min(max((q + 1) / 2, 1e-9), 1 - 1e-9)
    return round(max(-MOST_CP, min(MOST_CP, CP_PER_DECADE * math.log10(expected / (1 - expected)))))


def _permille(thought: Thought) -> str:
    draw = min(max(thought.d, 0.0), 1.0)
    win = min(max((1 - draw + thought.q) / 2, 0.0), 1.0 - draw)
    shares = [round(1000 * win), round(1000 * draw)]
    return f"{shares[0]} {shares[1]} {max(1000 - sum(shares), 0)}"


def _integer(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?\d{1,18}", text, flags=re.ASCII) else None
