"""`ludus bench loader`: positions per CPU-second of the chunk loader, beside what the machine could do at best.

Three ways of drawing from 2,000 games, in batches of 1024: every position with a reservoir of 100,000; 3 % of each game
at a time; one position a game at a time. The same three from a pool that is three times as large as the loader's
memory, with a reservoir of 20,000. Each in a process of its own, all threads counted, from steady state; first batch
and memory are of the first one. Limits are measured in the same run, one thread each: inflating the same chunks with
zlib, expanding bitboards with NumPy, and copying as many bytes as a position's planes have.

The games are synthetic: random legal moves played by the native board, with random visit counts.
"""

from __future__ import annotations

import gzip
import io
import resource
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ludus.bench.measuring import Figure, Measured, run_rounds, run_this_side
from ludus.extras import need_packages

if TYPE_CHECKING:
    from ludus_chess import ChunkLoader

CHUNKS = 2_000
PLIES = 78
CHUNKS_PER_TAR = 100
BATCH = 1_024
RECORD = 8_356
UNIT = "positions per CPU-second"
WAYS: dict[str, dict[str, Any]] = {
    "rate_1": {"reservoir": 100_000},
    "rate_003": {"reservoir": 100_000, "rate": 0.03},
    "one_a_game": {"reservoir": 100_000, "count": 1},
}
TIGHT = {f"{way}_tight": {**options, "reservoir": 20_000, "memory_mb": 16} for way, options in WAYS.items()}
"""16 MB for 53 MB of decoded games."""
ALL_WAYS = WAYS | TIGHT
NAMES = {"rate_1": "rate 1.0", "rate_003": "rate 0.03", "one_a_game": "one position a game"}
NAMES |= {f"{way}_tight": f"{name}, a third of the games in memory" for way, name in NAMES.items()}


def bench_loader(*, rounds: int = 3, seconds: float = 10.0) -> list[Figure]:
    """Measure every way of drawing and the limits, in interleaved rounds; medians."""
    need_packages("the chunk loader", "ludus_chess")
    data = make_chunks()
    found: dict[str, list[Measured]] = {}
    for side, measured in run_rounds(__name__, [*ALL_WAYS, "limits"], rounds=rounds, seconds=seconds):
        found.setdefault(side, []).append(measured)
    limits = {name: median(run[name] for run in found["limits"]) for name in found["limits"][0]}
    figures = [
        Figure.against(
            NAMES[way], median(run["rate"] for run in found[way]), UNIT, "memcpy of planes", limits["memcpy of planes"]
        )
        for way in ALL_WAYS
    ]
    figures += [Figure.alone(f"limit: {name}", value, UNIT) for name, value in limits.items()]
    first, memory = ([run[name] for run in found["rate_1"]] for name in ("first_ms", "rss_mb"))
    figures.append(Figure.alone(f"first batch, {data[1]:,} positions", median(first), "ms"))
    figures.append(Figure.alone("resident memory, rate 1.0", max(memory), "MB"))
    return figures


def make_chunks() -> tuple[Path, int]:
    """The directory of synthetic tars, made once for all rounds, and how many positions are in it."""
    home = Path(tempfile.gettempdir()) / f"ludus-bench-loader-{CHUNKS}x{PLIES}"
    if not (home / "complete").exists():
        home.mkdir(exist_ok=True)
        rng = np.random.default_rng(1)
        for number in range(CHUNKS // CHUNKS_PER_TAR):
            hidden = home / f".training-{number:05d}.tar"
            with tarfile.open(hidden, "w") as tar:
                for index in range(CHUNKS_PER_TAR):
                    _add(tar, f"training.{number * CHUNKS_PER_TAR + index:07d}.gz", make_game(rng))
            hidden.rename(home / f"training-{number:05d}.tar")
        (home / "complete").touch()
    return home, CHUNKS * PLIES


def make_game(rng: np.random.Generator) -> bytes:
    """V6 records of random legal moves."""
    from ludus_chess import START_FEN, Board, encode_game

    board = Board()
    moves: list[str] = []
    policies: list[tuple[NDArray[Any], NDArray[Any]]] = []
    while len(moves) < PLIES:
        indices = board.legal_indices()
        if len(indices) == 0:  # Mate or stalemate: another game.
            return make_game(rng)
        visits = np.floor(rng.dirichlet(np.full(len(indices), 0.25)) * 800)
        visits[rng.integers(len(indices))] += 1
        policies.append((indices, visits / visits.sum()))
        move = board.move_of(int(rng.choice(indices)))
        moves.append(move)
        board.push(move)
    values = np.concatenate([rng.uniform(-0.5, 0.5, (PLIES, 1)), rng.uniform(0, 0.5, (PLIES, 2))], axis=1)
    visits = np.full(PLIES, 800)
    return encode_game(START_FEN, moves, policies, "1-0", root=values, best=values, played=values, visits=visits)


def _add(tar: tarfile.TarFile, name: str, game: bytes) -> None:
    data = gzip.compress(game, 6, mtime=0)
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def measure_way(way: str, seconds: float) -> Measured:
    """Steady state: every game has been drawn, and the reservoir is full."""
    from ludus_chess import ChunkLoader, LoaderConfig

    home, positions = make_chunks()
    started = time.perf_counter()
    with ChunkLoader(LoaderConfig(directory=home, batch_size=BATCH, **ALL_WAYS[way])) as loader:
        loader.get_next_batch()
        first_ms = (time.perf_counter() - started) * 1000
        while not _is_steady(loader, positions):
            loader.get_next_batch()
        rate = _per_cpu_second(lambda: _take(loader), seconds)
    rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"rate": rate, "first_ms": first_ms, "rss_mb": rss_mb}


def _is_steady(loader: ChunkLoader, positions: int) -> bool:
    stats = loader.get_stats()
    reservoir = stats.stage("reservoir")
    pool = stats.stage("chunk_pool").counts
    is_known = pool["positions_cached"] >= positions or (pool["cache_evictions"] > 0 and pool["passes"] > 0)
    return is_known and reservoir.queue == reservoir.capacity


def _take(loader: ChunkLoader) -> int:
    batch = loader.get_next_batch()
    return 0 if batch is None else len(batch[0])


def measure_limits(seconds: float) -> Measured:
    """What one thread could do at best, each for a third of the time."""
    home, _ = make_chunks()
    with tarfile.open(min(home.glob("*.tar"))) as tar:
        chunks = [file.read() for member in tar if (file := tar.extractfile(member))]
    raw = b"".join(zlib.decompress(chunk, 47) for chunk in chunks[: BATCH // PLIES + 1])
    records = np.frombuffer(raw, np.uint8).reshape(-1, RECORD)[:BATCH].copy()
    planes, policy = np.empty((BATCH, 112, 64), np.float32), np.empty((BATCH, 1858), np.float32)
    source = np.ones_like(planes)
    turn = iter(range(1 << 60))

    def inflate() -> int:
        return len(zlib.decompress(chunks[next(turn) % len(chunks)], 47)) // RECORD

    def expand() -> int:
        boards = records[:, 7440:8272].reshape(BATCH, 104, 8)
        planes[:, :104] = np.unpackbits(boards, axis=2).reshape(BATCH, 104, 64)
        planes[:, 104:] = 1
        policy[:] = records[:, 8:7440].copy().view(np.float32)
        return BATCH

    def copy() -> int:
        np.copyto(planes, source)
        return BATCH

    limits = {"zlib inflate": inflate, "NumPy expansion": expand, "memcpy of planes": copy}
    return {name: _per_cpu_second(work, seconds / 3) for name, work in limits.items()}


def _per_cpu_second(work: Callable[[], int], seconds: float) -> float:
    started, done = time.process_time(), 0
    while time.process_time() - started < seconds:
        done += work()
    return done / (time.process_time() - started)


def _run_way(way: str) -> Callable[[float], Measured]:
    return lambda seconds: measure_way(way, seconds)


if __name__ == "__main__":
    run_this_side({**{way: _run_way(way) for way in ALL_WAYS}, "limits": measure_limits})
