"""Traces are there once, whole or not at all, and never cost the run anything but their place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ludus.errors import CorruptRecord
from ludus.storage.filesystem import FileSystem, Piece
from ludus.storage.traces import (
    TracedSequence,
    TraceLog,
    decode_traces,
    encode_traces,
    packed,
    scan_frames,
    trace_files,
)


def sequence(episode: str, length: int = 3) -> TracedSequence:
    columns = {
        "action": np.arange(length),
        "mask": np.arange(length) > 0,
        "logp": np.linspace(-1, 0, length),
        "advantage": np.full(length, np.nan),
    }
    return TracedSequence(episode=episode, seat=0, columns=packed(columns))


def opened(folder: Path, keep_bytes: int = 10_000_000) -> TraceLog:
    return TraceLog(folder / "traces", keep_bytes=keep_bytes)


def recorded(folder: Path) -> list[int]:
    return [frame.update for path in trace_files(folder / "traces") for frame in scan_frames(path)]


def fill(log: TraceLog, first: int, last: int) -> None:
    for update in range(first, last + 1):
        log.add(update, encode_traces([sequence(f"e{update}")]))


def test_what_is_added_is_read_again(tmp_path: Path) -> None:
    fill(opened(tmp_path), 1, 3)
    (path,) = trace_files(tmp_path / "traces")
    (found,) = list(scan_frames(path))[1].read()
    assert found == sequence("e2")
    assert found.arrays["action"].tolist() == [0, 1, 2]
    assert found.arrays["mask"].tolist() == [False, True, True]
    assert found.arrays["logp"].dtype == np.float32


def test_a_run_that_goes_on_has_every_update_once(tmp_path: Path) -> None:
    fill(opened(tmp_path), 1, 9)
    again = opened(tmp_path)
    again.rewind(4)
    fill(again, 5, 7)
    assert recorded(tmp_path) == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("cut", [1, 10, 24, 40])
def test_a_torn_tail_is_passed_over_and_cut_off(tmp_path: Path, cut: int) -> None:
    log = opened(tmp_path)
    fill(log, 1, 3)
    log.close()
    (path,) = trace_files(tmp_path / "traces")
    path.write_bytes(path.read_bytes()[:-cut])
    assert recorded(tmp_path) == [1, 2]
    again = opened(tmp_path)
    again.rewind(9)
    fill(again, 3, 4)
    assert recorded(tmp_path) == [1, 2, 3, 4]


def test_a_rotten_frame_ends_its_file(tmp_path: Path) -> None:
    fill(opened(tmp_path), 1, 3)
    (path,) = trace_files(tmp_path / "traces")
    second = list(scan_frames(path))[1]
    data = bytearray(path.read_bytes())
    data[second.start + 5] ^= 1
    path.write_bytes(data)
    assert recorded(tmp_path) == [1]
    with pytest.raises(CorruptRecord, match="not traced sequences"):
        decode_traces(b"rotten")


def test_the_oldest_make_room(tmp_path: Path) -> None:
    log = opened(tmp_path, keep_bytes=1_000_000)
    for update in range(1, 41):
        log.add(update, encode_traces([sequence(f"e{update}", 3_000)]))
    kept = recorded(tmp_path)
    assert sum(path.stat().st_size for path in trace_files(tmp_path / "traces")) <= 1_000_000
    assert 10 < len(kept) < 40
    assert kept == list(range(41 - len(kept), 41)), "the newest, without a gap"
    log.rewind(30)
    fill(log, 31, 31)
    assert recorded(tmp_path)[-2:] == [30, 31]


def test_a_full_disk_costs_traces_alone(tmp_path: Path) -> None:
    class Full(FileSystem):
        is_full = True

        def append(self, descriptor: int, piece: Piece) -> int:
            return super().append(descriptor, bytes(piece)[:7] if self.is_full else piece)

    disk = Full()
    log = TraceLog(tmp_path / "traces", keep_bytes=10_000_000, fs=disk)
    fill(log, 1, 2)
    disk.is_full = False
    fill(log, 3, 3)
    assert log.dropped == 2
    assert recorded(tmp_path) == [3]
