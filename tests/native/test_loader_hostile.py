"""Hostile chunks and archives to the loader: bounded, refused with file, offset and reason, counted; the rest is used."""

import gzip
import io
import os
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("chess")
pytest.importorskip("ludus_chess", reason="the native part of chess is not built")

from ludus_chess import ChunkLoader, Refusal
from ludus_chess.records import V6_DTYPE
from tests.native.chunk_files import PATIENCE_S, decode, make_game, make_loader, take, write_chunk


def refusals_of(loader: ChunkLoader, count: int = 1) -> list[Refusal]:
    found: list[Refusal] = []
    pause = threading.Event()
    for _ in range(int(PATIENCE_S / 0.01)):
        found += loader.take_refusals()
        if len(found) >= count:
            return found
        pause.wait(0.01)
    raise AssertionError(f"{len(found)} refusals: {found}")


BAD_GZ: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "gzip"),
    "text": (lambda: b"this is no gzip file at all", "gzip"),
    "truncated": (lambda: gzip.compress(make_game(1))[:-500], "gzip"),
    "damaged": (lambda: gzip.compress(make_game(1))[:2000] + b"x" * 100 + gzip.compress(make_game(1))[2100:], "gzip"),
    "bomb": (lambda: gzip.compress(bytes(100 << 20)), "bomb"),
    "version": (lambda: gzip.compress(b"\x09\0\0\0" + make_game(1)[4:]), "version"),
    "cut": (lambda: gzip.compress(make_game(1)[:-1]), "size"),
    "nothing": (lambda: gzip.compress(b""), "version"),
}


@pytest.mark.parametrize("name", BAD_GZ)
def test_a_bad_chunk_is_refused_and_the_good_ones_are_used(tmp_path: Path, name: str) -> None:
    make, reason = BAD_GZ[name]
    (tmp_path / "a.gz").write_bytes(make())
    write_chunk(tmp_path, "b.gz", make_game(2))
    with make_loader(tmp_path) as loader:
        take(loader, 4)
        (refusal,) = refusals_of(loader)
        stats = loader.get_stats()
    assert (refusal.file, refusal.reason, refusal.is_whole) == ("a.gz", reason, True)
    assert refusal.detail
    assert stats.refused == {reason: 1}
    assert stats.chunks == 1


def test_bad_records_are_refused_with_their_offset_and_the_rest_is_used(tmp_path: Path) -> None:
    records = np.frombuffer(make_game(1), V6_DTYPE).copy()
    records["best_q"][3] = 7
    records["probabilities"][5] *= 3
    records["root_q"][7] = np.nan
    records["version"][9] = 5
    records["planes"][11, 0] ^= 1 << 20
    write_chunk(tmp_path, "a.gz", records.tobytes())
    with make_loader(tmp_path) as loader:
        _, policy, values = take(loader, 4)
        refused = {refusal.offset // 8356: refusal.reason for refusal in refusals_of(loader, 6)}
    # A position that another does not lead to takes no other with it; the one behind it does not follow from it either.
    assert refused == {3: "value", 5: "probability", 7: "value", 9: "version", 11: "position", 12: "position"}
    wanted = {row.tobytes() for i, row in enumerate(decode(make_game(1))[1]) if i not in refused}
    assert {row.tobytes() for row in policy} == wanted
    assert np.isfinite(values[:, 5, :2]).all()


def test_the_same_game_twice_is_used_once(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz", "c.gz"):
        write_chunk(tmp_path, name, make_game(1))
    with make_loader(tmp_path) as loader:
        take(loader, 4)
        assert {refusal.reason for refusal in refusals_of(loader, 2)} == {"duplicate"}
        assert loader.get_stats().chunks == 1


def test_records_of_another_format_are_refused_when_one_is_asked_for(tmp_path: Path) -> None:
    write_chunk(tmp_path, "a.gz", make_game(1, input_format=2))
    write_chunk(tmp_path, "b.gz", make_game(2))
    with make_loader(tmp_path, input_format=1) as loader:
        take(loader, 2)
        assert refusals_of(loader)[0].detail == "input format 2, asked for 1"


def _add(tar: tarfile.TarFile, name: str, data: bytes, kind: bytes = tarfile.REGTYPE) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.type = len(data), kind
    if kind != tarfile.REGTYPE:
        info.size, info.linkname = 0, "/etc/passwd"
    tar.addfile(info, io.BytesIO(data))


def test_links_devices_and_paths_that_lead_out_are_skipped_or_only_read(tmp_path: Path) -> None:
    good = gzip.compress(make_game(1))
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE):
            _add(tar, "x.gz", b"", kind)
        _add(tar, "nested.tar", b"no tar")
        _add(tar, "../../outside.gz", good)
        _add(tar, "/absolute.gz", gzip.compress(make_game(2)))
    before = set(tmp_path.parent.rglob("*"))
    with make_loader(tmp_path) as loader:
        take(loader, 4)
        stats = loader.get_stats()
    assert stats.chunks == 2
    assert stats.stage("chunk_sources").counts["members_skipped"] == 6
    assert set(tmp_path.parent.rglob("*")) == before


@pytest.mark.parametrize("size", [b"77777777777\0", b"\x80\0\0\0\x01\0\0\0\0\0\0\0", b"\xff" * 12, b"hello world\0"])
def test_members_before_a_bad_size_are_used(tmp_path: Path, size: bytes) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        _add(tar, "a.gz", gzip.compress(make_game(1)))
        at = out.tell()
        _add(tar, "b.gz", b"junk")
    data = bytearray(out.getvalue())
    header = data[at : at + 512]
    header[124:136] = size
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    data[at : at + 512] = header
    (tmp_path / "a.tar").write_bytes(data)
    with make_loader(tmp_path) as loader:
        take(loader, 2)
        (refusal,) = refusals_of(loader)
    assert (refusal.file, refusal.reason, refusal.offset) == ("a.tar", "tar", at)


def test_a_file_that_is_deleted_while_it_is_used_does_not_stop_the_loader(tmp_path: Path) -> None:
    for seed in range(30):
        write_chunk(tmp_path, f"{seed:03d}.gz", make_game(seed, plies=120))
    with make_loader(tmp_path, reservoir=500, memory_mb=1) as loader:
        take(loader, 10)
        for seed in range(15):
            (tmp_path / f"{seed:03d}.gz").unlink()
        take(loader, 400)
        assert loader.get_stats().refused.get("unreadable", 0) > 0


def test_a_fifo_and_a_folder_that_are_called_chunks_hold_up_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.gz")
    (tmp_path / "b.gz").mkdir()
    write_chunk(tmp_path, "c.gz", make_game(1))
    with make_loader(tmp_path) as loader:
        take(loader, 2)
        assert refusals_of(loader)[0].detail == "not a regular file"


def test_a_state_whose_files_have_gone_goes_on_with_those_that_are_left(tmp_path: Path) -> None:
    for seed in range(10):
        write_chunk(tmp_path, f"{seed:03d}.gz", make_game(seed))
    with make_loader(tmp_path, reservoir=100) as loader:
        take(loader, 3)
        state = loader.state()
    for seed in range(5):
        (tmp_path / f"{seed:03d}.gz").unlink()
    with make_loader(tmp_path, reservoir=100) as loader:
        loader.load_state(state)
        take(loader, 40)
        assert loader.get_stats().refused["gone"] == 5


def test_links_to_nothing_to_themselves_and_to_devices_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.gz").symlink_to(tmp_path / "b.gz")
    (tmp_path / "b.gz").symlink_to(tmp_path / "a.gz")
    (tmp_path / "c.gz").symlink_to(tmp_path / "nothing")
    (tmp_path / "d.gz").symlink_to("/dev/zero")
    (tmp_path / "e.tar").symlink_to("/dev/zero")
    (tmp_path / "f.gz").symlink_to(tmp_path)
    (tmp_path / "folder").symlink_to(tmp_path)
    write_chunk(tmp_path, "g.gz", make_game(1))
    with make_loader(tmp_path, settle_s=0.0) as loader:
        take(loader, 2)
        refused = {refusal.file: refusal.detail for refusal in refusals_of(loader, 6)}
        assert loader.get_stats().chunks == 1
    assert set(refused) == {"a.gz", "b.gz", "c.gz", "d.gz", "e.tar", "f.gz"}
    assert "symbolic links" in refused["a.gz"]
    assert refused["d.gz"] == refused["e.tar"] == refused["f.gz"] == "not a regular file"


def test_a_name_that_is_no_utf8_is_read_refused_and_counted_like_any_other(tmp_path: Path) -> None:
    home = os.fsencode(tmp_path) + b"/caf\xe9"
    write_chunk(Path(os.fsdecode(home)), "a.gz", make_game(1))
    Path(os.fsdecode(home + b"/b\xff.gz")).write_bytes(b"no gzip")
    with make_loader(Path(os.fsdecode(home))) as loader:
        take(loader, 2)
        (refusal,) = refusals_of(loader)
        loader.reset_anchor()
        stats = loader.get_stats()
        loader.set_anchor(stats.anchor)
    assert os.fsencode(refusal.file) == b"b\xff.gz"
    assert os.fsencode(stats.newest_key) == os.fsencode(stats.anchor) == b"b\xff.gz"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    write_chunk(tmp_path, "a.gz", make_game(1)).chmod(0)
    write_chunk(tmp_path, "b.gz", make_game(2))
    with make_loader(tmp_path, settle_s=0.0) as loader:
        take(loader, 2)
        assert refusals_of(loader)[0].detail == "Permission denied"


@pytest.mark.parametrize("change", ["truncated", "replaced", "overwritten"])
def test_files_that_change_after_they_were_found_are_refused_or_read_anew(tmp_path: Path, change: str) -> None:
    for seed in range(4):
        with tarfile.open(tmp_path / f"{seed}.tar", "w") as tar:
            for member in range(8):
                _add(tar, f"{member}.gz", gzip.compress(make_game(10 * seed + member, 120)))
    good = {
        row.tobytes()
        for seed in range(4)
        for member in range(8)
        for row in decode(make_game(10 * seed + member, 120))[1]
    }
    with make_loader(tmp_path, reservoir=500, memory_mb=1) as loader:  # Games do not fit: they are read again.
        take(loader, 4)
        for seed in range(3):
            path = tmp_path / f"{seed}.tar"
            if change == "truncated":
                os.truncate(path, 700)
            elif change == "replaced":
                other = tmp_path / ".other"
                other.write_bytes(b"x" * 100)
                other.rename(path)
            else:
                path.write_bytes(os.urandom(path.stat().st_size))
        _, policy, _ = take(loader, 260)  # Into the second pass.
        refused = refusals_of(loader, 3)
    assert {refusal.reason for refusal in refused} <= {"unreadable", "gzip", "bomb"}
    assert {row.tobytes() for row in policy} <= good


@pytest.mark.slow
def test_a_directory_of_two_hundred_thousand_names_is_read_and_its_junk_refused(tmp_path: Path) -> None:
    for number in range(200_000):
        os.close(os.open(tmp_path / f"{number:06d}.gz", os.O_CREAT | os.O_WRONLY))
    write_chunk(tmp_path, "999999.gz", make_game(1))
    with make_loader(tmp_path, pool_chunks=300_000) as loader:
        looked_at = -1
        while loader.get_next_batch(PATIENCE_S) is None:  # the good one may be the last; a busy machine takes its time
            stats = loader.get_stats()
            done = stats.stage("directory_watch").counts["files"] + sum(stats.refused.values())
            assert done > looked_at, stats
            looked_at = done
        take(loader, 1)
        stats = loader.get_stats()
    assert stats.stage("directory_watch").counts["files"] == 200_001
    assert stats.refused["gzip"] > 0
