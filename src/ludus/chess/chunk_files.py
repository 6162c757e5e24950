"""Chunks as they lie on disk: `.gz` files of one game each, and `.tar` files of such.

Invariant: nothing in a file is trusted. Sizes are bounded before they are allocated, what cannot be read is a problem
with file and offset and costs that chunk only, and nothing is unpacked to disk.
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ludus.errors import ConfigError

MOST_BYTES = 64 << 20
"""Of one game, inflated: 7,600 positions."""
MOST_PACKED_BYTES = 32 << 20
GZIP = 31
"""What zlib calls a gzip header with the largest window."""
SUFFIXES = (".gz", ".tar")
READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One game as its records, or why it cannot be read."""

    source: str
    """File, and the name inside a tar after `!`."""
    offset: int
    """In the file: of the packed chunk, or of the fault."""
    packed_bytes: int = 0
    records: bytes = b""
    problem: str = ""


def find_files(paths: Iterable[Path]) -> Iterator[Path]:
    """The files that paths mean: themselves, or everything below a directory that may be chunks, in order of names."""
    for path in paths:
        if path.is_dir():
            inside = sorted(each for each in path.rglob("*") if each.suffix in SUFFIXES and each.is_file())
            yield from (
                each for each in inside if not any(part.startswith(".") for part in each.relative_to(path).parts)
            )
        elif path.is_file():
            yield path
        else:
            raise ConfigError(f"{path}: no such file or directory")


def read_chunks(paths: Iterable[Path]) -> Iterator[Chunk]:
    """Every chunk of files and directories."""
    for path in find_files(paths):
        yield from _tar_chunks(path) if path.suffix == ".tar" else [_inflated(str(path), 0, _file_bytes(path))]


def _file_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MOST_PACKED_BYTES + 1)


def _tar_chunks(path: Path) -> Iterator[Chunk]:
    place = 0
    try:
        with tarfile.open(path, "r:") as tar:
            while (member := tar.next()) is not None:
                tar.members = []  # type: ignore[attr-defined]  # tarfile would keep all of them
                place = member.offset
                source = f"{path}!{member.name[:200]}"
                if not member.isreg():
                    yield Chunk(source=source, offset=place, problem="no ordinary file")
                elif not 0 <= member.size <= MOST_PACKED_BYTES:
                    yield Chunk(source=source, offset=place, problem=f"{member.size:,} bytes are too many for one game")
                    return
                elif member.name.endswith(".gz"):
                    file = tar.extractfile(member)
                    packed = file.read(member.size) if file is not None else b""
                    yield _inflated(source, member.offset_data, packed)
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        yield Chunk(source=str(path), offset=place, problem=f"the tar cannot be read on: {error}")


def _inflated(source: str, offset: int, packed: bytes) -> Chunk:
    if len(packed) > MOST_PACKED_BYTES:
        return Chunk(
            source=source, offset=offset, problem=f"more than {MOST_PACKED_BYTES:,} bytes are too many for one game"
        )
    records, problem = inflate(packed)
    return Chunk(source=source, offset=offset, packed_bytes=len(packed), records=records, problem=problem)


def inflate(packed: bytes) -> tuple[bytes, str]:
    """What gzip packed, and the problem, if there is one."""
    parts: list[bytes] = []
    size, rest = 0, packed
    while rest:
        stream = zlib.decompressobj(GZIP)
        try:
            parts.append(stream.decompress(rest, MOST_BYTES + 1 - size))
        except zlib.error as error:
            return b"", f"gzip: {error}"
        size += len(parts[-1])
        if size > MOST_BYTES:
            return b"", f"inflates to more than {MOST_BYTES:,} bytes"
        if not stream.eof:
            return b"", f"gzip: truncated after {size:,} bytes"
        rest = stream.unused_data
    return b"".join(parts), "" if packed else "empty file"
