"""Chunks for the loader's tests, and what their tensors must be: records decoded again with NumPy alone."""

import gzip
import random
import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import chess
import numpy as np
from ludus_chess import ChunkLoader, LoaderConfig, Tensors, encode_game
from ludus_chess.records import V6_DTYPE, V7_DTYPE
from numpy.typing import NDArray
from tests.native.oracle import policy_index

PATIENCE_S = 60.0
SIZES = {3: 8276, 4: 8292, 5: 8308, 6: 8356, 7: 8396}


@cache
def make_game(seed: int, plies: int = 30, input_format: int = 1) -> bytes:
    """V6 records of random legal moves with random targets."""
    rng, order = np.random.default_rng(seed), random.Random(seed)
    board, moves, policies = chess.Board(), [], []
    while len(moves) < plies and (legal := list(board.legal_moves)):
        visits = np.floor(rng.dirichlet(np.full(len(legal), 0.3)) * 50)
        visits[order.randrange(len(legal))] += 1
        indices = np.array([policy_index(board, move) for move in legal])
        policies.append((indices, visits / visits.sum()))
        move = order.choice(legal)
        moves.append(move.uci())
        board.push(move)
    count = len(moves)
    q = rng.uniform(-0.5, 0.5, (4, count, 1))
    root, best, played, orig = np.concatenate([q, rng.uniform(0, 0.5, (4, count, 1)), 50 * abs(q)], axis=2)
    orig[::3] = np.nan
    return encode_game(
        chess.STARTING_FEN,
        moves,
        policies,
        order.choice(["1-0", "0-1", "1/2-1/2"]),
        root=root,
        best=best,
        played=played,
        orig=orig,
        visits=np.full(count, 50),
        policy_kld=rng.uniform(0, 1, count),
        input_format=input_format,
    )


def as_version(v6: bytes, version: int) -> bytes:
    """The same game as another version would have written it."""
    records = np.frombuffer(v6, V6_DTYPE).copy()
    records["version"] = version
    if version == 6:
        return records.tobytes()
    if version == 7:
        records7 = np.zeros(len(records), V7_DTYPE)
        for name in V6_DTYPE.names or ():
            records7[name] = records[name]
        records7["q_st"], records7["d_st"] = records["root_q"] / 2, records["root_d"] / 2
        return records7.tobytes()
    records["dummy"] = records["result_q"].astype(np.int8).view(np.uint8)
    whole = records.tobytes()
    parts = []
    for i in range(len(records)):
        one = whole[i * 8356 : (i + 1) * 8356]
        parts.append(one[:8308] if version == 5 else (one[:4] + one[8:])[: SIZES[version]])
    return b"".join(parts)


def short_term(q: NDArray[Any], d: NDArray[Any], theta: float = 5 / 6) -> tuple[list[float], list[float]]:
    """Version 7's averages, computed forwards from each position to the end."""
    qs, ds = [], []
    for i in range(len(q)):
        weights = np.array([(1 - theta) * theta**k for k in range(len(q) - i)])
        weights[-1] = theta ** (len(q) - i - 1)
        signs = np.array([(-1) ** k for k in range(len(q) - i)])
        qs.append(float((weights * signs * q[i:]).sum()))
        ds.append(float((weights * d[i:]).sum()))
    return qs, ds


def decode(chunk: bytes) -> Tensors:
    """What the loader must make of an inflated chunk of any version."""
    version = struct.unpack("<I", chunk[:4])[0]
    count = len(chunk) // SIZES[version]
    records = np.zeros(count, V7_DTYPE)
    raw = np.frombuffer(chunk, np.uint8).reshape(count, -1)
    view = records.view(np.uint8).reshape(count, -1)
    if version >= 5:
        view[:, : raw.shape[1]] = raw
    else:
        records["input_format"] = 1
        view[:, 8 : raw.shape[1] + 4] = raw[:, 4:]
    if version < 6:
        results = records["dummy"].view(np.int8)
        records["result_q"], records["result_d"] = results, results == 0
        for name in ("played_q", "played_d", "played_m", "orig_q", "orig_d", "orig_m"):
            records[name] = np.nan
    if version < 5:
        records["root_m"] = records["best_m"] = np.nan
        records["plies_left"] = np.arange(count, 0, -1)
    if version < 4:
        records["root_q"] = records["best_q"] = records["root_d"] = records["best_d"] = np.nan
    if version < 7:
        records["q_st"], records["d_st"] = short_term(records["root_q"], records["root_d"])
    return _planes(records), records["probabilities"].copy(), _values(records)


def _planes(records: NDArray[Any]) -> NDArray[np.float32]:
    planes = np.zeros((len(records), 112, 8, 8), np.float32)
    boards = np.ascontiguousarray(records["planes"]).view(np.uint8).reshape(len(records), 104, 8)
    planes[:, :104] = np.unpackbits(boards, axis=2).reshape(len(records), 104, 8, 8)
    for row, record in zip(planes, records, strict=True):
        form = int(record["input_format"])
        files = {name: [record[name] >> file & 1 for file in range(8)] for name in record.dtype.names[4:9]}
        if form == 1:
            row[104], row[105] = record["castling_us_ooo"], record["castling_us_oo"]
            row[106], row[107] = record["castling_them_ooo"], record["castling_them_oo"]
        else:
            row[104, 0], row[104, 7] = files["castling_us_ooo"], files["castling_them_ooo"]
            row[105, 0], row[105, 7] = files["castling_us_oo"], files["castling_them_oo"]
        if form <= 2:
            row[108] = record["side_to_move_or_enpassant"]
        else:
            row[108, 7] = files["side_to_move_or_enpassant"]
        row[109] = np.float32(record["rule50_count"]) / np.float32(99 if form <= 3 else 100)
        row[110] = form >= 132 and record["invariance_info"] >> 7
        row[111] = 1
    return planes


def _values(records: NDArray[Any]) -> NDArray[np.float32]:
    values = np.full((len(records), 6, 3), np.nan, np.float32)
    for row, name in enumerate(("result", "best", "played", "orig", "root", "st")):
        q, d = ("q_st", "d_st") if name == "st" else (f"{name}_q", f"{name}_d")
        values[:, row, 0], values[:, row, 1] = records[q], records[d]
        if name != "st":
            values[:, row, 2] = records["plies_left" if name == "result" else f"{name}_m"]
    return values


def write_chunk(directory: Path, name: str, chunk: bytes) -> Path:
    """A chunk that appears whole, as a careful writer's does."""
    directory.mkdir(parents=True, exist_ok=True)
    hidden = directory / f".{name}"
    hidden.write_bytes(gzip.compress(chunk, mtime=0))
    return hidden.rename(directory / name)


def write_games(directory: Path, seeds: Sequence[int], **game: int) -> None:
    for seed in seeds:
        write_chunk(directory, f"training.{seed:06d}.gz", make_game(seed, **game))


def make_loader(directory: Path, **options: Any) -> ChunkLoader:
    """A loader of small batches without a reservoir, unless the options say otherwise."""
    small = {"directory": directory, "batch_size": 16, "reservoir": 1, "threads": 2, "memory_mb": 16}
    return ChunkLoader(LoaderConfig(**{**small, **options}))


def take(loader: ChunkLoader, batches: int = 1) -> Tensors:
    """So many batches, copied and put together."""
    taken = []
    for _ in range(batches):
        batch = loader.get_next_batch(PATIENCE_S)
        assert batch is not None, f"no batch came: {loader.get_stats()}"
        taken.append(tuple(tensor.copy() for tensor in batch))
    planes, policy, values = (np.concatenate(parts) for parts in zip(*taken, strict=True))
    return planes, policy, values


def assert_same(ours: Tensors, theirs: Tensors) -> None:
    for name, a, b in zip(("planes", "policy", "values"), ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=name)
