"""The chunk loader: tensors equal a NumPy decode; the order, state and anchors; files that come, wait and go."""

import gzip
import io
import tarfile
import threading
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("chess")
pytest.importorskip("ludus_chess", reason="the native part of chess is not built")

from ludus_chess import ChunkLoader, LoaderStopped
from tests.native.chunk_files import (
    PATIENCE_S,
    as_version,
    assert_same,
    decode,
    make_game,
    make_loader,
    take,
    write_chunk,
    write_games,
)
from tests.native.real_games import DATA, require_data


def wait_for(loader: ChunkLoader, is_so: object) -> None:
    """Until the loader's stats say so; its own waiting gives the rhythm."""
    assert callable(is_so)
    pause = threading.Event()
    for _ in range(int(PATIENCE_S / 0.01)):
        if is_so(loader.get_stats()):
            return
        pause.wait(0.01)
    raise AssertionError(f"never so: {loader.get_stats()}")


@pytest.mark.parametrize("version", [3, 4, 5, 6, 7])
def test_tensors_equal_a_numpy_decode_for_every_version(tmp_path: Path, version: int) -> None:
    chunk = as_version(make_game(1), version)
    write_chunk(tmp_path, "a.gz", chunk)
    with make_loader(tmp_path, batch_size=len(make_game(1)) // 8356) as loader:
        planes, policy, values = take(loader)
    wanted = decode(chunk)
    order = np.lexsort(values[:, 0, 2:].T)[::-1]  # One slot of reservoir: only the first two may change places.
    np.testing.assert_allclose(values[order, 5], wanted[2][:, 5], rtol=1e-5, atol=1e-6)
    values[:, 5], wanted[2][:, 5] = 0, 0
    assert_same((planes[order], policy[order], values[order]), wanted)


@pytest.mark.parametrize("input_format", [1, 2, 3, 4, 5, 132, 133])
def test_tensors_equal_a_numpy_decode_for_every_input_format(tmp_path: Path, input_format: int) -> None:
    chunk = make_game(2, plies=120, input_format=input_format)
    write_chunk(tmp_path, "a.gz", chunk)
    with make_loader(tmp_path, batch_size=len(chunk) // 8356) as loader:
        planes, policy, values = take(loader)
        assert loader.get_stats().refused == {}
    wanted = decode(chunk)
    order = np.lexsort(values[:, 0, 2:].T)[::-1]
    np.testing.assert_array_equal(planes[order], wanted[0])
    np.testing.assert_array_equal(policy[order], wanted[1])


def test_real_chunks_and_tars_equal_a_numpy_decode() -> None:
    require_data()
    wanted: dict[bytes, tuple[bytes, bytes]] = {}
    for path in sorted((DATA / "v6").glob("training*")):
        chunks = [gzip.decompress(path.read_bytes())] if path.suffix == ".gz" else _members(path)
        for chunk in chunks:
            planes, policy, values = decode(chunk)
            for row in range(len(planes)):
                wanted[values[row, :5].tobytes() + policy[row].tobytes()] = planes[row].tobytes()
    with make_loader(DATA / "v6", batch_size=1024, reservoir=5000) as loader:
        planes, policy, values = take(loader, 4)
        stats = loader.get_stats()
    assert stats.refused == {}
    assert stats.chunks == 100
    for row in range(len(planes)):
        assert wanted[values[row, :5].tobytes() + policy[row].tobytes()] == planes[row].tobytes()


def _members(path: Path) -> list[bytes]:
    with tarfile.open(path) as tar:
        return [gzip.decompress(file.read()) for member in tar if (file := tar.extractfile(member))]


def test_one_pass_gives_every_position_once(tmp_path: Path) -> None:
    write_games(tmp_path, range(20))
    with make_loader(tmp_path, batch_size=100) as loader:
        _, policy, values = take(loader, 6)
    rows = {values[row].tobytes() + policy[row].tobytes() for row in range(600)}
    assert len(rows) >= 599  # The reservoir's one slot still holds the last.


def test_a_rate_takes_disjoint_subsets_that_cover_the_game(tmp_path: Path) -> None:
    write_games(tmp_path, range(4))
    with make_loader(tmp_path, batch_size=12, rate=0.1) as loader:
        _, policy, values = take(loader, 10)
    assert len({values[row].tobytes() + policy[row].tobytes() for row in range(120)}) >= 119


def test_batches_depend_on_the_seed_and_not_on_threads_or_memory(tmp_path: Path) -> None:
    write_games(tmp_path, range(30))
    options = {"reservoir": 200, "rate": 0.5, "batch_size": 32}
    with make_loader(tmp_path, threads=1, **options) as loader:
        wanted = take(loader, 20)
    for other in ({"threads": 4}, {"threads": 3, "memory_mb": 1, "prefetch_batches": 5}):
        with make_loader(tmp_path, **options, **other) as loader:
            assert_same(take(loader, 20), wanted)
    with make_loader(tmp_path, seed=1, **options) as loader:
        assert not np.array_equal(take(loader, 20)[1], wanted[1])


@pytest.mark.parametrize("options", [{}, {"rate": 0.3}, {"count": 2}])
def test_a_resume_continues_with_the_batch_that_would_have_come_next(tmp_path: Path, options: dict[str, float]) -> None:
    write_games(tmp_path, range(25))
    common = {"reservoir": 150, "batch_size": 32, **options}
    with make_loader(tmp_path, **common) as loader:
        take(loader, 3)
        state = loader.state()
        wanted = take(loader, 12)
    with make_loader(tmp_path, **common) as loader:
        take(loader, 1)
        loader.load_state(state)
        assert_same(take(loader, 12), wanted)


def test_a_resume_repeats_at_which_batch_files_joined(tmp_path: Path) -> None:
    write_games(tmp_path, range(10))
    options = {"reservoir": 50, "batch_size": 32, "admit_at_anchor": True, "anchor": "training.000009.gz"}
    with make_loader(tmp_path, **options) as loader:
        take(loader, 2)
        write_games(tmp_path, range(10, 20))
        wait_for(loader, lambda stats: stats.chunks_since_anchor == 10)
        assert loader.reset_anchor(4) == 4
        state = loader.state()
        wanted = take(loader, 10)
        assert loader.get_stats().chunks == 14
    with make_loader(tmp_path, **options) as loader:
        loader.load_state(state)
        assert_same(take(loader, 10), wanted)
        stats = loader.get_stats()
        assert (stats.chunks, stats.chunks_since_anchor, stats.anchor) == (14, 6, "training.000013.gz")


def test_a_state_of_another_config_or_a_damaged_one_is_refused(tmp_path: Path) -> None:
    write_games(tmp_path, range(3))
    with make_loader(tmp_path) as loader:
        take(loader)
        state = loader.state()
    with make_loader(tmp_path, batch_size=8) as loader:
        with pytest.raises(ValueError, match=r"batch_size 16.*batch_size 8"):
            loader.load_state(state)
        for damaged in (b"", b"junk", state[: len(state) // 2]):
            with pytest.raises(ValueError, match="state"):
                loader.load_state(damaged)


def test_a_directory_that_comes_later_and_its_subfolders_are_found(tmp_path: Path) -> None:
    home = tmp_path / "later"
    with make_loader(home) as loader:
        assert loader.get_next_batch(0.0) is None
        write_games(home / "sub" / "folder", range(3))
        take(loader, 2)


def test_a_file_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    whole = gzip.compress(make_game(1))
    with (tmp_path / "a.gz").open("wb") as file:
        file.write(whole[:1000])
        file.flush()
        with make_loader(tmp_path) as loader:
            wait_for(loader, lambda stats: stats.stage("directory_watch").queue == 1)
            assert loader.get_next_batch(0.0) is None
            file.write(whole[1000:])
            file.close()
            take(loader)
            assert loader.get_stats().refused == {}


def test_a_stop_wakes_whoever_waits_and_can_be_repeated(tmp_path: Path) -> None:
    loader = make_loader(tmp_path)
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            loader.get_next_batch()
        except LoaderStopped as error:
            raised.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    loader.stop()
    waiting.join(PATIENCE_S)
    loader.stop()
    assert not waiting.is_alive()
    assert len(raised) == 1


def test_tensors_keep_their_memory_after_the_loader_is_gone(tmp_path: Path) -> None:
    write_games(tmp_path, range(5))
    loader = make_loader(tmp_path)
    kept = [batch for _ in range(8) if (batch := loader.get_next_batch(PATIENCE_S))]
    copies = [tuple(tensor.copy() for tensor in batch) for batch in kept]
    loader.stop()
    del loader
    for batch, copy in zip(kept, copies, strict=True):
        assert_same(batch, copy)
    assert not kept[0][0].flags.owndata
    assert kept[0][0].ctypes.data % 64 == 0


def test_memory_of_dropped_batches_is_used_again(tmp_path: Path) -> None:
    write_games(tmp_path, range(5))
    with make_loader(tmp_path) as loader:
        addresses = set()
        for _ in range(50):
            batch = loader.get_next_batch(PATIENCE_S)
            assert batch is not None
            addresses.add(batch[0].ctypes.data)
            del batch
    assert len(addresses) <= 6


def test_the_pool_keeps_the_newest_chunks(tmp_path: Path) -> None:
    write_games(tmp_path, range(12))
    newest = {row.tobytes() for seed in range(8, 12) for row in decode(make_game(seed))[1]}
    with make_loader(tmp_path, pool_chunks=4) as loader:
        _, policy, _ = take(loader, 20)
        assert loader.get_stats().chunks == 4
    assert {row.tobytes() for row in policy} <= newest


def test_parts_of_a_split_share_no_chunk_and_miss_none(tmp_path: Path) -> None:
    write_games(tmp_path, range(40))
    split = {"train": 0.7, "validation": 0.3}
    counts = {}
    for part in split:
        with make_loader(tmp_path, split=split, part=part) as loader:
            take(loader)
            stats = loader.get_stats()
            counts[part] = stats.chunks
            assert stats.stage("split").counts == {"ours": stats.chunks, "others": 40 - stats.chunks}
    assert sum(counts.values()) == 40
    assert counts["train"] > counts["validation"] > 0


def test_focus_prefers_surprising_positions(tmp_path: Path) -> None:
    from ludus_chess import Focus

    write_games(tmp_path, range(40))
    shares = []
    for focus in (Focus(), Focus(q_weight=1.0, pol_scale=0.5, gamma=4.0)):
        with make_loader(tmp_path, rate=0.5, batch_size=128, focus=focus) as loader:
            values = take(loader, 4)[2]
            gap = np.abs(values[:, 1, 0] - values[:, 3, 0])
            shares.append(float(np.nanmean(gap)))
    assert shares[1] > shares[0]


def test_chunks_since_the_anchor_are_counted_by_name(tmp_path: Path) -> None:
    write_games(tmp_path, range(10))
    with make_loader(tmp_path, anchor="training.000006.gz") as loader:
        wait_for(loader, lambda stats: stats.chunks_since_anchor == 3)
        assert loader.reset_anchor() == 3
        stats = loader.get_stats()
        assert (stats.anchor, stats.newest_key, stats.chunks_since_anchor) == (*["training.000009.gz"] * 2, 0)
        loader.set_anchor("training.000001.gz")
        assert loader.get_stats().chunks_since_anchor == 8
        _tar(tmp_path / "training.000010.tar", [make_game(seed) for seed in (50, 51)])
        wait_for(loader, lambda stats: stats.chunks_since_anchor == 10)


def _tar(path: Path, chunks: list[bytes]) -> None:
    hidden = path.with_name(f".{path.name}")
    with tarfile.open(hidden, "w") as tar:
        for number, chunk in enumerate(chunks):
            data = gzip.compress(chunk)
            info = tarfile.TarInfo(f"game{number}.gz")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    hidden.rename(path)


def test_a_config_that_cannot_be_is_refused_with_the_field(tmp_path: Path) -> None:
    for options, field in (({"rate": 0.0}, "rate"), ({"batch_size": 0}, "batch_size"), ({"threads": -1}, "threads")):
        with pytest.raises(ValueError, match=field):
            make_loader(tmp_path, **options)
