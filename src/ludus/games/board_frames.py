"""A recorded game as boards that can be drawn: for each move the cells after it, and the text for all other games.

Boards are read from what OpenSpiel's game, or our chess, writes of a position; a pgx game that has a twin there is
replayed by the twin, so nothing loads JAX for it. Invariant: a game that cannot be drawn, or cannot be replayed, gives
text or says why; it never raises for what a recording holds. To add a drawing: a reader in `_READERS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ludus.errors import ConfigError, EnvError, LudusError, boundary
from ludus.games.protocol import Game, Position
from ludus.games.registry import make_game
from ludus.games.twins import TWINS, Twin
from ludus.records import Episode

MOST_FRAMES = 2000
MOST_TEXT = 4_000_000
"""Characters of all frames of a game together."""
EMPTY = "."
_CHESS_ROW = re.compile(r"(?:[pnbrqkPNBRQK1-8]{1,8}/){7}[pnbrqkPNBRQK1-8]{1,8}")
_FEN = re.compile(_CHESS_ROW.pattern + r" [wb] \S+ \S+ \d+ \d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A position, and the moves that led to it."""

    ply: int
    moves: tuple[tuple[int, int, str], ...]
    """Seat, action and the move as the game writes it; none for the position at the beginning."""
    cells: str = ""
    """Row by row from the top; `x` and `o` are the seats that move first and second, chess pieces are as in FEN."""
    text: str = ""
    """What the game itself shows, where it cannot be drawn; of chess its FEN."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A whole game."""

    kind: str
    """`connect_four`, `tic_tac_toe`, `othello`, `go`, `chess` or `text`."""
    rows: int = 0
    columns: int = 0
    frames: list[Frame] = field(default_factory=list)
    problem: str = ""
    """Why it ends before its end; empty where it does not."""


def replay_game(episode: Episode) -> Replay:
    """Replay a recorded game on a board."""
    key, actions = _drawable(episode.task.game)
    kind = board_kind(key)
    try:
        game = make_game(key)
    except (ConfigError, ImportError) as error:
        return Replay(kind="text", problem=f"the game cannot be made here: {error}")
    replay = _replayed(episode, game, kind, actions)
    return replay


def board_kind(key: str) -> str:
    """How a game is drawn: the name of a drawing, or `text`."""
    backend, _, name = _drawable(key)[0].partition(":")
    stem = name.partition("(")[0]
    if backend == "open_spiel" and stem in _READERS:
        return stem
    return "chess" if backend == "chess" else "text"


def read_board(kind: str, text: str) -> tuple[int, int, str] | None:
    """Rows, columns and cells of a position's text; None where it is none."""
    return _READERS[kind](text) if kind in _READERS else None


class Drawing:
    """The position of a game that is being played, as a board."""

    def __init__(self, key: str, position: Position, seed: int) -> None:
        """`position` is the game's own, begun with this seed."""
        self._position = position
        drawable, self._twin = _drawable(key)
        self.kind = board_kind(key)
        self._mirror = make_game(drawable).start(seed) if self._twin is not None else None

    def act(self, moves: Mapping[int, int]) -> None:
        """Follow moves that the game has taken. After the end a twin may have no more of them."""
        if self._mirror is not None and self._twin is not None and self._mirror.acting():
            self._mirror.act({seat: self._twin.to_open_spiel(action) for seat, action in moves.items()})

    def show(self) -> tuple[int, int, str, str]:
        """Rows, columns, cells and text of the position; no cells where it cannot be drawn."""
        text = (self._mirror or self._position).text()
        board = read_board(self.kind, text)
        return (*board, text) if board is not None else (0, 0, "", text)

    def cells_of(self, action: int, rows: int, columns: int) -> list[int]:
        """Where an action is played, row by row from the top; nothing for a pass, and where cells do not say it."""
        place = self._twin.to_open_spiel(action) if self._twin is not None else action
        if self.kind == "connect_four":
            return [place + columns * row for row in range(rows)]
        if self.kind not in ("tic_tac_toe", "othello", "go") or place >= rows * columns:
            return []
        return [(rows - 1 - place // columns) * columns + place % columns] if self.kind == "go" else [place]


def _drawable(key: str) -> tuple[str, Twin | None]:
    """The game to replay by, and how its actions are numbered there."""
    backend, _, name = key.partition(":")
    if backend == "pgx" and name in TWINS:
        return f"open_spiel:{TWINS[name].open_spiel_name}", TWINS[name]
    return key, None


def _replayed(episode: Episode, game: Game, kind: str, twin: Twin | None) -> Replay:
    frames: list[Frame] = []
    size, spent, problem = (0, 0), 0, ""
    by_ply: dict[int, dict[int, int]] = {}
    for ply, seat, action in episode.turns():
        by_ply.setdefault(ply, {})[seat] = twin.to_open_spiel(action) if twin is not None else action
    try:
        with boundary(EnvError, "the beginning of the game"):
            position = game.start(episode.task.game_seed)
        for ply, moves in [(-1, {}), *sorted(by_ply.items())]:
            with boundary(EnvError, f"move {moves}"):
                frame, size, kind = _frame(position, ply, moves, kind, size)
            spent += len(frame.cells) + len(frame.text)
            if len(frames) > MOST_FRAMES or spent > MOST_TEXT:
                problem = f"only the first {len(frames):,} positions are shown"
                break
            frames.append(frame)
    except LudusError as error:
        if not (twin is not None and twin.has_closing_passes):
            problem = str(error)
    return Replay(kind=kind, rows=size[0], columns=size[1], frames=frames, problem=problem)


def _frame(
    position: Position, ply: int, moves: Mapping[int, int], kind: str, size: tuple[int, int]
) -> tuple[Frame, tuple[int, int], str]:
    said = tuple((seat, action, position.action_text(seat, action)) for seat, action in moves.items())
    if moves:
        position.act(moves)
    text = position.text()
    board = read_board(kind, text)
    if board is None:
        return Frame(ply=ply, moves=said, text=text), size, "text"
    fen = match[0] if kind == "chess" and (match := _FEN.search(text)) else ""
    return Frame(ply=ply, moves=said, cells=board[2], text=fen), (board[0], board[1]), kind


def _grid(text: str, pattern: str, signs: Mapping[str, str]) -> tuple[int, int, str] | None:
    """The lines that match, without what is not a cell."""
    rows = [match[1].replace(" ", "") for line in text.splitlines() if (match := re.fullmatch(pattern, line.strip()))]
    if not rows or len({len(row) for row in rows}) != 1:
        return None
    return len(rows), len(rows[0]), "".join(signs.get(cell, cell) for row in rows for cell in row)


def _plain(text: str) -> tuple[int, int, str] | None:
    return _grid(text, r"([.xo]+)", {})


def _othello(text: str) -> tuple[int, int, str] | None:
    return _grid(text, r"\d ((?:[-xo] ?){8})\d", {"-": EMPTY})


def _go(text: str) -> tuple[int, int, str] | None:
    return _grid(text, r"\d+ ([+XO]+)", {"+": EMPTY, "X": "x", "O": "o"})


def _chess(text: str) -> tuple[int, int, str] | None:
    match = _CHESS_ROW.search(text)
    if match is None:
        return None
    cells = re.sub(r"[1-8]", lambda count: EMPTY * int(count[0]), match[0]).replace("/", "")
    return (8, 8, cells) if len(cells) == 64 else None


_READERS: dict[str, Callable[[str], Any]] = {
    "connect_four": _plain,
    "tic_tac_toe": _plain,
    "othello": _othello,
    "go": _go,
    "chess": _chess,
}
