"""Framed messages between two processes over a socket pair.

A frame is `<u32 message bytes><u64 blob bytes><u8 in a file><u32 incarnation><u64 number>` followed by the message
(msgpack of a tagged struct) and the blob (Arrow bytes, weights: whatever is too big to encode twice). A large blob does
not go through the socket: it is a sealed file in memory whose descriptor comes with the header, so that the sender
never waits for the reader and the reader maps what the sender wrote. Nothing is ever unpickled. To add a message, add a
struct to the union that the two sides agreed on.

Invariant: whatever carries the frames, each is taken once and in order, and only from the incarnation at the other end.
Repeated frames and those of an earlier incarnation are dropped and counted; a missing one is a ProtocolError.
"""

from __future__ import annotations

import array
import fcntl
import mmap
import os
import select
import socket
import struct
import time
from collections import deque
from typing import Generic, NamedTuple, TypeVar

import msgspec

from ludus.errors import ProtocolError

HEADER = struct.Struct("<IQBIQ")
MAX_MESSAGE_BYTES = 64 * 2**20
MAX_BLOB_BYTES = 4 * 2**30
READ_BYTES = 1 << 20
FILE_BYTES = 256 * 2**10
"""Blobs from this size on, about that of a socket's buffer, are files in memory."""
_MOST_FILES = 64
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
"""Nobody can change or shorten what is mapped: a reader would get other bytes, or a bus error."""

Incoming = TypeVar("Incoming")


class Stop(msgspec.Struct, tag="stop", kw_only=True):
    """Ask a worker to end; what it has in hand is given up. Every worker understands it."""


class _Piece(NamedTuple):
    """Bytes to send, with the descriptor of a file that goes with the first of them."""

    bytes: memoryview
    file: int | None = None


class Channel(Generic[Incoming]):
    """One end of a connection. `incoming` is the union of message structs that may arrive here."""

    def __init__(self, sock: socket.socket, incoming: object, *, incarnation: int = 0) -> None:
        """`incarnation` is that of the worker at one end, known to both."""
        self._socket = sock
        self._incarnation = incarnation
        self._passes_files = sock.family == socket.AF_UNIX
        self._sent = self._taken = 0
        self.dropped = 0
        """Frames that came again, or from an earlier incarnation."""
        self._decoder: msgspec.msgpack.Decoder[Incoming] = msgspec.msgpack.Decoder(incoming)
        self._encoder = msgspec.msgpack.Encoder()
        self._inbox = bytearray()
        self._files: deque[int] = deque()
        """Descriptors that arrived, in the order of their frames."""
        self._outbox: deque[_Piece] = deque()
        sock.setblocking(False)

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._socket.fileno()

    @property
    def has_unsent(self) -> bool:
        """Whether `flush` has work to do."""
        return bool(self._outbox)

    def send(self, message: msgspec.Struct, blob: bytes | memoryview = b"") -> None:
        """Queue a message and send as much as goes without waiting."""
        body = self._encoder.encode(message)
        file = self._put_into_file(blob)
        header = HEADER.pack(len(body), len(blob), file is not None, self._incarnation, self._sent)
        self._sent += 1
        self._outbox.append(_Piece(memoryview(header + body), file))
        if len(blob) and file is None:
            self._outbox.append(_Piece(memoryview(blob).cast("B")))
        self.flush()

    def _put_into_file(self, blob: bytes | memoryview) -> int | None:
        """A file that goes beside a frame; None for a small blob, and where the other side may be far away."""
        is_large = self._passes_files and len(blob) >= FILE_BYTES
        return _write_file(memoryview(blob).cast("B")) if is_large else None

    def flush(self) -> None:
        """Send queued bytes until the socket would block."""
        while self._outbox:
            part, file = self._outbox[0]
            try:
                sent = self._socket.send(part) if file is None else socket.send_fds(self._socket, [part], [file])
            except BlockingIOError:
                return
            if file is not None:
                os.close(file)
            if sent == len(part):
                self._outbox.popleft()
            else:
                self._outbox[0] = _Piece(part[sent:])

    def drain(self, deadline_s: float) -> None:
        """Send everything that is queued, waiting at most `deadline_s`."""
        end = time.monotonic() + deadline_s
        while self._outbox:
            left = end - time.monotonic()
            if left <= 0 or not select.select([], [self], [], left)[1]:
                raise ProtocolError(f"the other side took no data for {deadline_s:.0f} s")
            self.flush()

    def receive(self) -> list[tuple[Incoming, memoryview]]:
        """Everything that has arrived whole. Raises EOFError when the other side is gone."""
        closed = self._read_available()
        frames = self._split_frames()
        if closed and not frames:
            raise EOFError("the other side closed the connection")
        return frames

    def wait(self, timeout_s: float | None) -> list[tuple[Incoming, memoryview]]:
        """Wait for at least one whole message; an empty list when the time is up."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            frames = self.receive()
            left = None if end is None else end - time.monotonic()
            if frames or (left is not None and left <= 0):
                return frames
            writers = [self] if self._outbox else []
            select.select([self], writers, [], left)
            self.flush()

    def close(self) -> None:
        """Close this end."""
        self._socket.close()
        for file in (*self._files, *(piece.file for piece in self._outbox if piece.file is not None)):
            os.close(file)
        self._files.clear()
        self._outbox.clear()

    def _read_available(self) -> bool:
        while True:
            try:
                chunk = self._receive_some()
            except BlockingIOError:
                return False
            except ConnectionError:
                return True
            if not chunk:
                return True
            self._inbox += chunk

    def _receive_some(self) -> bytes:
        """Bytes that are there; descriptors that come with them are kept."""
        size = socket.CMSG_SPACE(_MOST_FILES * array.array("i").itemsize)
        chunk, controls, flags, _ = self._socket.recvmsg(READ_BYTES, size, socket.MSG_CMSG_CLOEXEC)
        for level, kind, data in controls:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self._files.extend(array.array("i", data[: len(data) - len(data) % 4]))
        if flags & socket.MSG_CTRUNC:
            raise ProtocolError("more files at once than a frame can have")
        return chunk

    def _split_frames(self) -> list[tuple[Incoming, memoryview]]:
        frames: list[tuple[Incoming, memoryview]] = []
        start = 0
        while len(self._inbox) - start >= HEADER.size:
            message_bytes, blob_bytes, in_file, incarnation, number = HEADER.unpack_from(self._inbox, start)
            if message_bytes > MAX_MESSAGE_BYTES or blob_bytes > MAX_BLOB_BYTES:
                raise ProtocolError(f"frame of {message_bytes} + {blob_bytes} bytes exceeds the limits")
            body = start + HEADER.size
            blob = body + message_bytes
            end = blob if in_file else blob + blob_bytes
            if len(self._inbox) < end:
                break
            file = self._map_file(blob_bytes) if in_file else None
            if self._is_next(incarnation, number):
                message = self._decode(bytes(self._inbox[body:blob]))
                frames.append((message, memoryview(self._inbox[blob:end]) if file is None else file))
            start = end
        if start:
            self._inbox = self._inbox[start:]
        return frames

    def _is_next(self, incarnation: int, number: int) -> bool:
        """Whether a frame is to be taken; if not, it is counted."""
        if incarnation != self._incarnation or number < self._taken:
            self.dropped += 1
            return False
        if number > self._taken:
            raise ProtocolError(f"frame {self._taken} is missing: {number} came")
        self._taken += 1
        return True

    def _map_file(self, size: int) -> memoryview:
        if not self._files:
            raise ProtocolError("a frame says that its blob is a file, and there is none")
        file = self._files.popleft()
        try:
            if fcntl.fcntl(file, fcntl.F_GET_SEALS) & _SEALS != _SEALS or os.fstat(file).st_size != size or not size:
                raise ProtocolError(f"the file of a blob is not sealed, or has not {size} bytes")
            return memoryview(mmap.mmap(file, size, prot=mmap.PROT_READ))
        except OSError as error:
            raise ProtocolError(f"the file of a blob cannot be read: {error}") from error
        finally:
            os.close(file)

    def _decode(self, body: bytes) -> Incoming:
        try:
            return self._decoder.decode(body)
        except msgspec.DecodeError as error:
            raise ProtocolError(f"malformed message: {error}") from error


def _write_file(blob: memoryview) -> int | None:
    """A sealed file in memory that holds `blob`; None where there can be none, and the socket takes it."""
    try:
        file = os.memfd_create("ludus-blob", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError:
        return None
    try:
        left = blob
        while left:
            left = left[os.write(file, left) :]
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, _SEALS)
    except OSError:
        os.close(file)
        return None
    return file
