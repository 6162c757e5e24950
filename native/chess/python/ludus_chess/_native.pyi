"""What the C++ of `native/chess` gives to Python: a section for each folder of `src/bindings`."""

from collections.abc import Iterator, Sequence
from typing import Any

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
    def encode(
        self, out: NDArray[np.float32] | None = None, input_format: int = 1, history_fill: str = "no"
    ) -> NDArray[np.float32]:
        """Write the network's input `[112, 8, 8]`, with the history that the board keeps.

        `history_fill`: steps before the board's first position are empty ("no", as in training records), that position
        again unless it is the usual start ("fen_only", as lc0 plays), or always that position ("always").
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

# --- search ---

class RootStats:
    """A root after a search: one entry for each legal move, values for the side to move, NaN where never visited."""

    @property
    def indices(self) -> NDArray[np.uint16]:
        """Policy indices, ascending, as `Board.legal_indices`."""
    @property
    def visits(self) -> NDArray[np.int32]: ...
    @property
    def q(self) -> NDArray[np.float32]: ...
    @property
    def d(self) -> NDArray[np.float32]: ...
    @property
    def m(self) -> NDArray[np.float32]:
        """Plies left, the move itself included."""
    @property
    def priors(self) -> NDArray[np.float32]:
        """The network's policy, without noise."""
    @property
    def proven(self) -> NDArray[np.int8]:
        """1, 0 or -1 where the move is known to win, draw or lose; 2 elsewhere."""
    @property
    def best(self) -> int:
        """Where the best move stands in these arrays: a proven win, else the most visited."""
    @property
    def root_visits(self) -> int: ...
    @property
    def root_proven(self) -> int: ...
    @property
    def root(self) -> tuple[float, float, float]:
        """Mean q, d, m of the search."""
    @property
    def raw(self) -> tuple[float, float, float]:
        """q, d, m as the network says of the root."""

class Search:
    """PUCT over many games at once, for one network.

    Call `collect`, evaluate the planes, `apply`, until `collect` returns no leaf; then read `root`, and `push` a move:
    its subtree is kept. The same boards, options, seed and answers give the same visits.
    """

    def __init__(
        self,
        boards: Sequence[Board],
        *,
        cpuct: float = 1.745,
        cpuct_base: float = 38739.0,
        cpuct_factor: float = 3.894,
        fpu_reduction: float = 0.33,
        policy_temperature: float = 1.0,
        noise_epsilon: float = 0.0,
        noise_alpha: float = 0.3,
        virtual_loss: float = 1.0,
        input_format: int = 1,
        history_fill: str = "no",
        seed: int = 0,
    ) -> None: ...
    def __len__(self) -> int: ...
    @property
    def pending(self) -> int:
        """Leaves that wait for `apply`."""
    def collect(self, max_leaves: int, *, visits: int, leaves_per_tree: int = 16) -> NDArray[np.float32]:
        """Return the planes `[N, 112, 8, 8]` of the leaves that the network must see next.

        N is 0 when every tree has `visits` visits (those kept from earlier moves count) or its game is over.
        """
    def apply(
        self,
        logits: NDArray[np.floating],
        values: NDArray[np.floating],
        moves_left: NDArray[np.floating] | None = None,
    ) -> None:
        """Take the network's answer: logits `[N, 1858]`; values `[N]` q, `[N, 2]` q and d, or `[N, 3]` W, D and L."""
    def root(self, tree: int) -> RootStats: ...
    def board(self, tree: int) -> Board:
        """Return a copy of the tree's game."""
    def is_over(self, tree: int) -> bool: ...
    def nodes(self, tree: int) -> int: ...
    def principal_variation(self, tree: int) -> list[str]: ...
    def push(self, tree: int, uci: str) -> None: ...
    def push_index(self, tree: int, index: int) -> None: ...
    def reset(self, tree: int, board: Board) -> None:
        """Begin another game in this tree's place."""

# --- loader ---

INFLATE_LIBRARY: str
"""libdeflate, or zlib where the build did not find it."""

class LoaderStopped(RuntimeError): ...

class Loader:
    """`ludus_chess.ChunkLoader` is what to use."""

    def __init__(self, config: dict[str, Any], state: bytes = b"") -> None: ...
    def get_next_batch(
        self, timeout_s: float | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]] | None: ...
    def get_stats(self) -> dict[str, Any]: ...
    def take_refusals(self) -> list[dict[str, Any]]: ...
    def state(self) -> bytes: ...
    def set_anchor(self, key: str | bytes) -> None: ...
    def reset_anchor(self, chunks: int | None = None) -> int: ...
    def stop(self) -> None: ...
