"""A pool that is larger than the loader's memory: the same batches, few inflations, bounded memory."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("chess")
pytest.importorskip("ludus_chess", reason="the native part of chess is not built")

from tests.native.chunk_files import assert_same, make_loader, take, write_chunk

from ludus.bench.loader import make_game

GAMES = 90
"""Of 78 positions: 2.4 MB when decoded."""


@pytest.fixture(scope="module")
def chunks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("chunks")
    rng = np.random.default_rng(1)
    for number in range(GAMES):
        write_chunk(home, f"training.{number:06d}.gz", make_game(rng))
    return home


@pytest.mark.parametrize("way", [{}, {"rate": 0.05}, {"count": 3}])
def test_a_pool_larger_than_memory_gives_the_same_batches_before_and_after_a_resume(
    chunks: Path, way: dict[str, float]
) -> None:
    options = {"reservoir": 600, "batch_size": 64, **way}
    with make_loader(chunks, **options) as loader:
        take(loader, 8)
        before = loader.state()
        wanted = take(loader, 20)
        assert loader.get_stats().stage("chunk_pool").counts["cache_evictions"] == 0
    with make_loader(chunks, memory_mb=1, threads=3, **options) as loader:
        take(loader, 8)
        state = loader.state()
        assert_same(take(loader, 20), wanted)
        assert loader.get_stats().stage("chunk_pool").counts["cache_evictions"] > 0
    for memory_mb, saved in ((1, state), (1, before), (16, state)):
        with make_loader(chunks, memory_mb=memory_mb, **options) as loader:
            loader.load_state(saved)
            assert_same(take(loader, 20), wanted)


@pytest.mark.parametrize(
    ("way", "more_passes", "most"), [({}, 2, 1.2), ({"rate": 0.05}, 10, 0.8), ({"count": 1}, 10, 0.5)]
)
def test_a_chunk_is_inflated_at_most_once_a_pass_however_small_the_memory(
    chunks: Path, way: dict[str, float], more_passes: int, most: float
) -> None:
    with make_loader(chunks, memory_mb=2, reservoir=600, batch_size=64, **way) as loader:
        inflated, passes = 0, 0
        while passes < 3:  # The reservoir is full, and nothing is left of the time before memory was.
            take(loader)
            counts = loader.get_stats().stage("chunk_pool").counts
            inflated, passes = counts["cache_misses"], counts["passes"]
        while (counts := loader.get_stats().stage("chunk_pool").counts)["passes"] < passes + more_passes:
            take(loader)
        stats = loader.get_stats()
    assert 0 < (counts["cache_misses"] - inflated) / (more_passes * GAMES) <= most
    assert stats.cache_bytes <= 2 << 20


def test_a_reservoir_larger_than_memory_is_read_again_from_its_chunks(chunks: Path) -> None:
    options = {"reservoir": 4_000, "batch_size": 64}
    with make_loader(chunks, **options) as loader:
        wanted = take(loader, 20)
    with make_loader(chunks, memory_mb=1, **options) as loader:
        assert_same(take(loader, 20), wanted)
        assert loader.get_stats().cache_bytes <= 1 << 20
