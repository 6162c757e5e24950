"""What chunks hold: are they sound, what is in them, and chunks from PGN."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from ludus_chess import Board, PgnReader, check_records, encode_game, policy_moves, upgrade_records
from ludus_chess.records import V7_DTYPE
from numpy.typing import NDArray

from ludus.chess.chunk_files import Chunk, read_chunks
from ludus.chess.chunk_writer import ChunkWriter
from ludus.errors import ConfigError

SIZES = {3: 8276, 4: 8292, 5: 8308, 6: 8356, 7: 8396}
"""Bytes of a record, by version."""
RESULTS = {"1-0": 1.0, "0-1": -1.0, "1/2-1/2": 0.0}
MOST_SHOWN = 5
Record = Any
"""A row of `V7_DTYPE`."""


@dataclass(slots=True, kw_only=True)
class Checked:
    """What a check found."""

    chunks: int = 0
    positions: int = 0
    refused: int = 0
    repeated: int = 0


def check(paths: Iterable[Path], checked: Checked) -> Iterator[str]:
    """Every problem as a line with file, offset and reason; counts what it saw in `checked`."""
    seen: dict[bytes, str] = {}
    for chunk in read_chunks(paths):
        checked.chunks += 1
        if problem := problem_of(chunk):
            checked.refused += 1
            yield problem
            continue
        first = seen.setdefault(hashlib.sha256(chunk.records).digest(), chunk.source)
        if first != chunk.source:
            checked.repeated += 1
            yield f"{chunk.source}: offset {chunk.offset:,}: the same game as {first}"
        else:
            checked.positions += len(chunk.records) // record_bytes(chunk.records)


def problem_of(chunk: Chunk) -> str:
    """What is wrong with a chunk, with where; empty when lc0 would take it and each position follows from the last."""
    where = f"{chunk.source}: offset {chunk.offset:,}"
    if chunk.problem:
        return f"{where}: {chunk.problem}"
    if not chunk.records:
        return f"{where}: no records"
    try:
        problem = check_records(chunk.records)
    except ValueError as error:
        return f"{where}: {error}"
    if problem is None:
        return ""
    number, reason = problem
    return f"{where}, record {number} (byte {number * record_bytes(chunk.records):,} of the game): {reason}"


def record_bytes(records: bytes) -> int:
    """The size of each record of a sound chunk."""
    return SIZES.get(int.from_bytes(records[:4], "little"), 1)


@dataclass(slots=True, kw_only=True)
class ChunkStats:
    """Sums over chunks."""

    games: int = 0
    refused: int = 0
    positions: int = 0
    packed_bytes: int = 0
    versions: Counter[int] = field(default_factory=Counter)
    formats: Counter[int] = field(default_factory=Counter)
    results: Counter[str] = field(default_factory=Counter)
    visits: float = 0.0
    entropy: float = 0.0
    best_played: int = 0
    longest: int = 0

    def add(self, chunk: Chunk, game: NDArray[Any]) -> None:
        """Count a game."""
        self.games += 1
        self.positions += len(game)
        self.packed_bytes += chunk.packed_bytes
        self.versions[int.from_bytes(chunk.records[:4], "little")] += 1
        self.formats[int(game["input_format"][0])] += 1
        self.results[white_result(game[0])] += 1
        self.visits += float(game["visits"].sum())
        policy = np.clip(game["probabilities"], 0, None).astype(np.float64)
        self.entropy -= float((policy * np.log(np.where(policy > 0, policy, 1))).sum())
        self.best_played += int((game["best_idx"] == game["played_idx"]).sum())
        self.longest = max(self.longest, len(game))

    def to_json(self) -> dict[str, Any]:
        """For programs, and as a table for people."""
        count = max(self.positions, 1)
        return {
            "games": self.games,
            "refused": self.refused,
            "positions": self.positions,
            "positions_per_game": round(self.positions / max(self.games, 1), 1),
            "longest_game": self.longest,
            "bytes_per_position": round(self.packed_bytes / count, 1),
            "versions": {str(version): games for version, games in sorted(self.versions.items())},
            "input_formats": {str(kind): games for kind, games in sorted(self.formats.items())},
            "results": dict(sorted(self.results.items())),
            "visits_per_position": round(self.visits / count, 1),
            "policy_entropy": round(self.entropy / count, 3),
            "best_move_played": round(self.best_played / count, 3),
        }


def stats(paths: Iterable[Path]) -> ChunkStats:
    """Count what is in chunks; unsound ones are left out, and counted."""
    found = ChunkStats()
    for chunk in read_chunks(paths):
        if problem_of(chunk):
            found.refused += 1
        else:
            found.add(chunk, game_of(chunk))
    return found


def game_of(chunk: Chunk) -> NDArray[Any]:
    """The records of a sound chunk as rows of `V7_DTYPE`."""
    return np.frombuffer(upgrade_records(chunk.records), V7_DTYPE)


def is_black(record: Record) -> bool:
    """Whether Black is to move."""
    if record["input_format"] < 3:
        return bool(record["side_to_move_or_enpassant"])
    return bool(record["invariance_info"] & 128)


def white_result(record: Record) -> str:
    """The result of the game that a record belongs to."""
    q = float(record["result_q"]) * (-1 if is_black(record) else 1)
    return "1/2-1/2" if q == 0 else "1-0" if q > 0 else "0-1"


def describe(record: Record) -> dict[str, Any]:
    """A record for people and programs. Moves are in UCI; castling is king takes rook, as in lc0's policy."""
    moves = policy_moves()
    black = is_black(record)

    def named(index: int) -> str:
        return (turned(moves[index]) if black else moves[index]) if index < len(moves) else "-"

    policy = record["probabilities"]
    order = [int(index) for index in np.argsort(-policy, kind="stable")[:MOST_SHOWN] if policy[index] > 0]
    return {
        "to_move": "black" if black else "white",
        "legal": int((policy >= 0).sum()),
        "played": named(int(record["played_idx"])),
        "best": named(int(record["best_idx"])),
        "policy": {named(index): round(float(policy[index]), 4) for index in order},
        "visits": int(record["visits"]),
        "rule50": int(record["rule50_count"]),
        **{
            f"{kind}_value": [_number(record[f"{kind}_{column}"]) for column in ("q", "d", "m")]
            for kind in ("root", "best", "played", "orig")
        },
        "result": white_result(record),
        "plies_left": _number(record["plies_left"]),
    }


def turned(move: str) -> str:
    """A move from White's view as Black's, and back."""
    return "".join(str(9 - int(letter)) if letter.isdigit() else letter for letter in move)


def board_of(record: Record) -> str:
    """The board, White below; a canonical format may have turned it about."""
    squares = [["."] * 8 for _ in range(8)]
    black = is_black(record)
    for plane, piece in enumerate("PNBRQKpnbrqk"):
        bits = np.unpackbits(record["planes"][plane : plane + 1].view(np.uint8)).reshape(8, 8)
        for rank, file in zip(*np.nonzero(bits), strict=True):
            letter = piece.swapcase() if black else piece
            squares[7 - rank if black else rank][file] = letter
    rows = [f"{rank + 1}  {' '.join(squares[rank])}" for rank in reversed(range(8))]
    return "\n".join([*rows, "   a b c d e f g h"])


def _number(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 4)


@dataclass(slots=True, kw_only=True)
class FromPgn:
    """What became of the games of PGN files."""

    games: int = 0
    positions: int = 0
    problems: list[str] = field(default_factory=list)


def from_pgn(files: Sequence[Path], writer: ChunkWriter, *, min_plies: int = 2) -> Iterator[FromPgn]:
    """Write the games of PGN files as chunks; tells after each game what became of them so far.

    The policy target is the move played, all values are the game's result, and there were no visits. Games without a
    result, with an illegal move or shorter than `min_plies` are left out with the reason.
    """
    done, number = FromPgn(), writer.first_number()
    for path in files:
        if not path.is_file():
            raise ConfigError(f"{path}: no such file")
        for game in PgnReader(str(path)):
            where = f"{path}: game {game.number} (line {game.line})"
            if game.problems:
                done.problems.append(f"{where}: {game.problems[0]}")
            elif game.result not in RESULTS:
                done.problems.append(f"{where}: has no result")
            elif len(game.moves) < min_plies:
                done.problems.append(f"{where}: has {len(game.moves)} moves, fewer than {min_plies}")
            else:
                writer.add(number, encode_played(game.start_fen, game.moves, game.result), positions=len(game.moves))
                number += 1
                done.games += 1
                done.positions += len(game.moves)
            yield done
    yield done


def encode_played(start_fen: str, moves: Sequence[str], result: str) -> bytes:
    """A game of which only the moves and the result are known."""
    board, policies = Board(start_fen), list[tuple[NDArray[np.int64], NDArray[np.float32]]]()
    values = np.zeros((len(moves), 3), np.float32)
    for ply, move in enumerate(moves):
        policies.append((np.array([board.index_of(move)], np.int64), np.ones(1, np.float32)))
        q = RESULTS[result] * (1 if board.white_to_move else -1)
        values[ply] = q, float(q == 0), len(moves) - ply
        board.push(move)
    return encode_game(start_fen, list(moves), policies, result, root=values, best=values, played=values)
