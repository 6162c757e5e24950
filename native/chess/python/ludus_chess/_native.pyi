"""What the C++ of `native/chess` gives to Python: a section for each folder of `src/bindings`."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

# --- board ---

START_FEN: str

class Board:
    """A position with the game that led to it.

    Moves are UCI. A castling move is the king's own (`e1g1`); king takes rook (`e1h1`) is accepted, too, and is what a
    board that began from a Chess960 position gives.
    Policy indices are lc0's 1858, seen from the side to move.
    Illegal moves and unsound FENs raise `ValueError` with the reason.
    """

    def __init__(self, fen: str = ...) -> None: ...
    @property
    def white_to_move(self) -> bool: ...
    @property
    def ply(self) -> int:
        """Half-moves since move 1 of White, as the FEN counts them."""
    @property
    def halfmove_clock(self) -> int: ...
    @property
    def repetitions(self) -> int:
        """How often this position occurred before."""
    @property
    def chess960(self) -> bool: ...
    def fen(self) -> str: ...
    def copy(self) -> Board: ...
    def is_check(self) -> bool: ...
    def legal_moves(self) -> list[str]: ...
    def legal_indices(self) -> NDArray[np.uint16]:
        """Policy indices of all legal moves, ascending."""
    def push(self, uci: str) -> None: ...
    def push_index(self, index: int) -> None: ...
    def index_of(self, uci: str) -> int: ...
    def move_of(self, index: int) -> str: ...
    def san(self, uci: str) -> str: ...
    def parse_san(self, text: str) -> str:
        """Return the move in UCI."""
    def outcome(self) -> tuple[str, str] | None:
        """Return (result, reason) of a game that is over: `("1-0", "checkmate")`.

        Reasons: checkmate, stalemate, insufficient material, fifty moves, threefold repetition.
        """
    def encode(self, out: NDArray[np.float32] | None = None, input_format: int = 1) -> NDArray[np.float32]:
        """Write the network's input `[112, 8, 8]`, with the history that the board keeps.

        Plane 109 is what the loader's batches have: plies without progress / 99 (formats 1 to 3) or / 100.
        """
    def __copy__(self) -> Board: ...
    def __deepcopy__(self, memo: object) -> Board: ...

def perft(fen: str, depth: int) -> int:
    """Count the leaves of the tree of legal moves."""

def policy_moves() -> list[str]:
    """Return the 1858 moves in lc0's order, from the side to move's view."""

# --- pgn ---

class PgnGame:
    """One game of a PGN file: its main line up to the first problem."""

    @property
    def number(self) -> int:
        """From 1."""
    @property
    def line(self) -> int:
        """Where the game begins, from 1."""
    @property
    def tags(self) -> dict[str, str]: ...
    @property
    def start_fen(self) -> str: ...
    @property
    def moves(self) -> list[str]:
        """In UCI."""
    @property
    def result(self) -> str:
        """`1-0`, `0-1`, `1/2-1/2` or `*`."""
    @property
    def problems(self) -> list[str]:
        """What is wrong, with line and game number; empty for a sound game."""

class PgnReader(Iterator[PgnGame]):
    """The games of a file, one after the other: memory does not grow with the file."""

    def __init__(self, path: str) -> None: ...
    def __next__(self) -> PgnGame: ...

def read_pgn(text: str | bytes) -> list[PgnGame]:
    """Return all games of a text; a bad one has `problems`."""

# --- encoding ---

def encode_game(
    start_fen: str,
    moves: Sequence[str],
    policies: Sequence[tuple[NDArray[np.integer], NDArray[np.floating]]],
    result: str,
    *,
    root: NDArray[np.floating],
    best: NDArray[np.floating],
    played: NDArray[np.floating],
    orig: NDArray[np.floating] | None = None,
    visits: NDArray[np.integer] | None = None,
    best_indices: NDArray[np.integer] | None = None,
    policy_kld: NDArray[np.floating] | None = None,
    best_proven: NDArray[np.bool_] | None = None,
    input_format: int = 1,
    adjudicated: bool = False,
    too_long: bool = False,
) -> bytes:
    """Return a game as V6 records, one a move: what gzip makes a chunk of.

    `policies` has (indices, probabilities) for each position, with the indices of `Board.index_of`; values are `[N, 3]`
    of q, d, m for the side to move, NaN where unknown; `best_indices` default to the most probable moves.
    """

def upgrade_records(records: bytes) -> bytes:
    """Return the V7 records of an inflated chunk of version 3 to 7; see `ludus_chess.records.V7_DTYPE`."""

def check_records(records: bytes) -> tuple[int, str] | None:
    """Return (record number, reason) of the first fault of an inflated chunk.

    Checks the values of each record, and that each position follows from the one before it by the move played.
    """
