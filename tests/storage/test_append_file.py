"""A file that grows by whole records, whatever the disk does."""

from pathlib import Path

import pytest

from ludus.storage.append_file import AppendFile
from ludus.storage.filesystem import FileSystem, Piece


class Cramped(FileSystem):
    """Takes half of a record while it is full."""

    is_full = False

    def append(self, descriptor: int, piece: Piece) -> int:
        return super().append(descriptor, bytes(piece)[: len(piece) // 2] if self.is_full else piece)


def test_a_record_that_does_not_fit_is_cut_off_again_and_the_next_follows(tmp_path: Path) -> None:
    disk = Cramped()
    file = AppendFile(tmp_path / "events", start=b"start ", fs=disk)
    for record, disk.is_full in ((b"one ", True), (b"two ", False), (b"three ", True), (b"four ", False)):
        if disk.is_full:
            with pytest.raises(OSError, match="No space left"):
                file.append(record)
        else:
            file.append(record)
    file.close()
    assert (tmp_path / "events").read_bytes() == b"start two four "


def test_there_is_no_file_before_the_first_record(tmp_path: Path) -> None:
    AppendFile(tmp_path / "events", start=b"start").close()
    assert not (tmp_path / "events").exists()
