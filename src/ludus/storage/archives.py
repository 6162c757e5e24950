"""Read the members of a tar, gzip or zip file into memory, believing nothing it says.

Invariant: nothing is ever written to disk, and memory stays within `Limits`, whatever the archive claims. Members that
come before a fault are yielded; the fault is a `CorruptRecord` that says what is wrong. Links, devices, names that
point outside, encrypted or oversized members, and bombs are faults; directories are skipped.

Not covered: archives inside archives (a member is bytes), and zip64, which only archives beyond the limits need.
"""

from __future__ import annotations

import io
import stat
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from ludus.errors import CorruptRecord
from ludus.storage.tar_stream import TarEntry, read_tar

_CHUNK = 1 << 16
_END_RECORD = b"PK\x05\x06"
_ZIP64_LOCATOR = b"PK\x06\x07"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much an archive may contain."""

    entries: int = 100_000
    member_bytes: int = 64_000_000
    total_bytes: int = 1_000_000_000
    ratio: int = 200
    """Unpacked bytes per packed byte, beyond the first megabyte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One file of an archive."""

    name: str
    content: bytes


DEFAULT_LIMITS = Limits()


def read_archive(path: Path, limits: Limits = DEFAULT_LIMITS) -> Iterator[Member]:
    """Yield the files of an archive in order; its kind is told by its first bytes, not by its name.

    Raises:
        CorruptRecord: at the first fault, after the good members before it.
    """
    with path.open("rb") as file:
        start = file.read(4)
        file.seek(0)
        try:
            yield from _counted(_members(file, path, start, limits), limits)
        except (
            OSError,
            EOFError,
            ValueError,
            zlib.error,
            zipfile.BadZipFile,
            NotImplementedError,
            RuntimeError,
        ) as error:
            raise CorruptRecord(f"{path}: {error}") from error
        except CorruptRecord as error:
            raise CorruptRecord(f"{path}: {error}") from error


def _members(file: BinaryIO, path: Path, start: bytes, limits: Limits) -> Iterator[Member]:
    if start.startswith(b"PK"):
        return _zip_members(file, limits)
    if not start.startswith(b"\x1f\x8b"):
        return _tar_members(file, limits)
    unpacked = io.BufferedReader(BoundedGunzip(file, limits), _CHUNK)
    if unpacked.peek(512)[257:262] == b"ustar" or path.name.endswith((".tar.gz", ".tgz")):
        return _tar_members(unpacked, limits)
    return _single_member(unpacked, path, limits)


def _counted(members: Iterator[Member], limits: Limits) -> Iterator[Member]:
    total = 0
    for member in members:
        total += len(member.content)
        if total > limits.total_bytes:
            raise CorruptRecord(f"more than {limits.total_bytes} bytes unpacked")
        yield member


def _single_member(unpacked: BinaryIO, path: Path, limits: Limits) -> Iterator[Member]:
    content = unpacked.read(limits.member_bytes + 1)
    if len(content) > limits.member_bytes:
        raise CorruptRecord(f"more than {limits.member_bytes} bytes unpacked")
    yield Member(name=path.name.removesuffix(".gz"), content=content)


def _tar_members(stream: BinaryIO, limits: Limits) -> Iterator[Member]:
    for entry in read_tar(stream, most_entries=limits.entries, most_bytes=limits.member_bytes):
        _check_name(entry.name)
        if entry.kind == TarEntry.FILE:
            yield Member(name=entry.name, content=entry.content)
        elif entry.kind != TarEntry.DIRECTORY:
            raise CorruptRecord(f"{entry.name!r} is a link or a device")


def _zip_members(file: BinaryIO, limits: Limits) -> Iterator[Member]:
    _check_zip_directory(file, limits)
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        if len(entries) > limits.entries:
            raise CorruptRecord(f"more than {limits.entries} entries")
        for entry in entries:
            _check_name(entry.filename)
            _check_zip_entry(entry, limits)
            if not entry.is_dir():
                yield Member(name=entry.filename, content=_read_zip_entry(archive, entry))


def _check_zip_directory(file: BinaryIO, limits: Limits) -> None:
    """Bound the directory before the library reads all of it into memory."""
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - 65_557))
    tail = file.read()
    at = tail.rfind(_END_RECORD)
    if at < 0 or len(tail) < at + 22:
        raise CorruptRecord("no zip directory")
    if tail[max(0, at - 20) : at].startswith(_ZIP64_LOCATOR):
        raise CorruptRecord("zip64 is not accepted")
    if int.from_bytes(tail[at + 12 : at + 16], "little") > limits.entries * 512:
        raise CorruptRecord(f"more than {limits.entries} entries")
    file.seek(0)


def _check_zip_entry(entry: zipfile.ZipInfo, limits: Limits) -> None:
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise CorruptRecord(f"{entry.filename!r} is a link or a device")
    if entry.flag_bits & 0x1:
        raise CorruptRecord(f"{entry.filename!r} is encrypted")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise CorruptRecord(f"{entry.filename!r} is packed in a way that is not accepted")
    if entry.file_size > limits.member_bytes:
        raise CorruptRecord(f"{entry.filename!r} says it has {entry.file_size} bytes; at most {limits.member_bytes}")
    if entry.file_size > 1_000_000 + limits.ratio * entry.compress_size:
        raise CorruptRecord(f"{entry.filename!r} unpacks to more than {limits.ratio} times its size")


def _read_zip_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    with archive.open(entry) as stream:  # stops at the size that was checked; verifies the CRC there
        content = stream.read(entry.file_size + 1)
    if len(content) != entry.file_size:
        raise CorruptRecord(f"{entry.filename!r} has {len(content)} bytes, not {entry.file_size}")
    return content


def _check_name(name: str) -> None:
    path = PurePosixPath(name.replace("\\", "/"))
    if not name or "\0" in name or path.is_absolute() or ".." in path.parts or name[1:2] == ":":
        raise CorruptRecord(f"the name {name!r} points outside the archive")


class BoundedGunzip(io.RawIOBase):
    """A gzip stream, unpacked a chunk at a time, that stops at the total and at the ratio of a bomb."""

    def __init__(self, file: BinaryIO, limits: Limits) -> None:
        self._file = file
        self._limits = limits
        self._unzip = zlib.decompressobj(31)
        self._packed = b""
        self._packed_total = 0
        self._total = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, target: bytearray | memoryview) -> int:  # type: ignore[override]
        """Unpack at most `len(target)` bytes."""
        while True:
            if self._unzip.eof and not self._next_stream():
                return 0
            packed = self._packed or self._more()
            if not packed and not self._unzip.eof:
                raise CorruptRecord("the gzip stream is truncated")
            content = self._unzip.decompress(packed, len(target))
            self._packed = self._unzip.unconsumed_tail
            if content:
                self._account(len(content))
                target[: len(content)] = content
                return len(content)

    def _more(self) -> bytes:
        chunk = self._file.read(_CHUNK)
        self._packed_total += len(chunk)
        return chunk

    def _next_stream(self) -> bool:
        """Gzip files may be concatenated; zeros at the end are padding."""
        rest = (self._unzip.unused_data or self._more()).lstrip(b"\0")
        if not rest:
            return False
        self._unzip = zlib.decompressobj(31)
        self._packed = rest
        return True

    def _account(self, count: int) -> None:
        self._total += count
        if self._total > self._limits.total_bytes:
            raise CorruptRecord(f"more than {self._limits.total_bytes} bytes unpacked")
        if self._total > 1_000_000 + self._limits.ratio * self._packed_total:
            raise CorruptRecord(f"unpacks to more than {self._limits.ratio} times its size")
