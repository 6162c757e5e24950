"""One segment: an immutable Arrow IPC file that carries its own checksum.

Invariant: every byte of the file is covered by an XXH3 checksum of 64 bits that stands in the file's footer, so a
segment proves itself without the catalog, and any Arrow reader can still open it. The checksum is computed with its own
digits set to zero and then written over them. (XXH3 runs at memory speed; zlib's CRC was a tenth of a write.)

Not covered: an attacker. A checksum detects accidents.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import xxhash

from ludus.errors import CorruptRecord

SUFFIX = ".arrow"
_MARK = b"ludus-xxh3="
_ZEROS = b"0" * 16
_SCRATCH_KEPT = 16_000_000
_TAIL = 10  # footer length (4 bytes) and the closing magic "ARROW1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Where `rows` rows are, from sequence number `first_seq` on."""

    log: str
    first_seq: int
    rows: int
    size_bytes: int
    checksum: str
    """In hex, as it stands in the file."""

    @property
    def end_seq(self) -> int:
        """The first sequence number after this segment."""
        return self.first_seq + self.rows

    @property
    def file_name(self) -> str:
        """Name of its file in the log's directory."""
        return segment_name(self.first_seq)


def segment_name(first_seq: int) -> str:
    """The file name of the segment that starts there."""
    return f"{first_seq:012d}{SUFFIX}"


def segment_starts(directory: Path) -> list[int]:
    """Where the segments in a directory start, ascending; none when there is no directory."""
    try:
        with os.scandir(directory) as entries:
            names = [entry.name.removesuffix(SUFFIX) for entry in entries if entry.name.endswith(SUFFIX)]
    except OSError:
        return []
    return sorted(int(name) for name in names if name.isdigit())


class SegmentEncoder:
    """Makes the bytes of segment files, in one piece of memory that is used again and again."""

    def __init__(self, log: str) -> None:
        self._log = log
        self._scratch = pa.allocate_buffer(0)
        self._schema: pa.Schema | None = None
        self._overhead = 0

    def encode(self, batch: pa.RecordBatch, *, first_seq: int) -> tuple[Segment, memoryview]:
        """What the file is, and its bytes, which are valid until the next call."""
        note = b'{"format": 1, "log": "%s", "first_seq": %d}' % (self._log.encode(), first_seq)
        sink = pa.FixedSizeBufferWriter(self._room_for(batch))
        with pa.ipc.new_file(sink, batch.schema, metadata={b"ludus": note, b"checksum": _MARK + _ZEROS}) as writer:
            writer.write_batch(batch)
        payload = memoryview(self._scratch).cast("B")[: sink.tell()]
        digits = _digits(payload)
        checksum = xxhash.xxh3_64_hexdigest(payload)
        payload[digits : digits + len(_ZEROS)] = checksum.encode()
        segment = Segment(
            log=self._log, first_seq=first_seq, rows=batch.num_rows, size_bytes=len(payload), checksum=checksum
        )
        return segment, payload

    def _room_for(self, batch: pa.RecordBatch) -> pa.Buffer:
        if self._schema is None or not batch.schema.equals(self._schema, check_metadata=True):
            self._schema = batch.schema
            self._overhead = 2 * batch.schema.serialize().size + 4096  # the schema stands at both ends
        need = pa.ipc.get_record_batch_size(batch) + self._overhead
        if self._scratch.size < need or self._scratch.size > 4 * need + _SCRATCH_KEPT:
            self._scratch = pa.allocate_buffer(need)
        return self._scratch


def open_segment(
    path: Path, *, log: str, verify: bool = True, is_mapped: bool = True
) -> tuple[Segment, pa.RecordBatch]:
    """Map a segment file into memory (or read it), check it, and give its rows without copying them.

    Raises:
        CorruptRecord: it is missing, torn, rotten, or not what its name says.
    """
    try:
        with pa.memory_map(str(path)) if is_mapped else pa.OSFile(str(path)) as file:
            buffer = file.read_buffer()
        checksum = _verified_checksum(memoryview(buffer), verify=verify)
        reader = pa.ipc.open_file(buffer)
        note = json.loads(reader.metadata[b"ludus"])
        batch = reader.get_batch(0)
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise CorruptRecord(f"{path}: not a whole segment: {error}") from error
    segment = Segment(
        log=log, first_seq=note["first_seq"], rows=batch.num_rows, size_bytes=buffer.size, checksum=checksum
    )
    if note["log"] != log or segment.file_name != path.name:
        raise CorruptRecord(f"{path}: holds rows of {note['log']} from {note['first_seq']} on")
    return segment, batch


def _verified_checksum(payload: memoryview, *, verify: bool) -> str:
    digits = _digits(payload)
    stored = bytes(payload[digits : digits + len(_ZEROS)]).decode()
    if verify:
        hasher = xxhash.xxh3_64(payload[:digits])
        hasher.update(_ZEROS)
        hasher.update(payload[digits + len(_ZEROS) :])
        if hasher.hexdigest() != stored:
            raise ValueError(f"checksum {hasher.hexdigest()}, expected {stored}")
    return stored


def _digits(payload: memoryview) -> int:
    """Where the digits of the checksum are."""
    end = len(payload) - _TAIL
    start = end - int.from_bytes(payload[end : end + 4], "little")
    if not 0 <= start < end:
        raise ValueError("no footer")
    footer = bytes(payload[start:end])
    if footer.count(_MARK) != 1:
        raise ValueError("no checksum")
    return start + footer.index(_MARK) + len(_MARK)
