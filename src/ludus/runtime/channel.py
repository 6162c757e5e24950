"""Framed messages between two processes over a socket pair.

A frame is `<u32 message bytes><u64 blob bytes>` followed by the message (msgpack of a tagged struct) and the blob
(Arrow bytes, weights: whatever is too big to encode twice). Nothing is ever unpickled. To add a message, add a struct
to the union that the two sides agreed on.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import deque
from typing import Generic, TypeVar

import msgspec

from ludus.errors import ProtocolError

HEADER = struct.Struct("<IQ")
MAX_MESSAGE_BYTES = 64 * 2**20
MAX_BLOB_BYTES = 4 * 2**30
READ_BYTES = 1 << 20

Incoming = TypeVar("Incoming")


class Stop(msgspec.Struct, tag="stop", kw_only=True):
    """Ask a worker to end; what it has in hand is given up. Every worker understands it."""


class Channel(Generic[Incoming]):
    """One end of a connection. `incoming` is the union of message structs that may arrive here."""

    def __init__(self, sock: socket.socket, incoming: object) -> None:
        self._socket = sock
        self._decoder: msgspec.msgpack.Decoder[Incoming] = msgspec.msgpack.Decoder(incoming)
        self._encoder = msgspec.msgpack.Encoder()
        self._inbox = bytearray()
        self._outbox: deque[memoryview] = deque()
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
        self._outbox.append(memoryview(HEADER.pack(len(body), len(blob)) + body))
        if len(blob):
            self._outbox.append(memoryview(blob).cast("B"))
        self.flush()

    def flush(self) -> None:
        """Send queued bytes until the socket would block."""
        while self._outbox:
            part = self._outbox[0]
            try:
                sent = self._socket.send(part)
            except BlockingIOError:
                return
            if sent == len(part):
                self._outbox.popleft()
            else:
                self._outbox[0] = part[sent:]

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

    def _read_available(self) -> bool:
        while True:
            try:
                chunk = self._socket.recv(READ_BYTES)
            except BlockingIOError:
                return False
            except ConnectionError:
                return True
            if not chunk:
                return True
            self._inbox += chunk

    def _split_frames(self) -> list[tuple[Incoming, memoryview]]:
        frames: list[tuple[Incoming, memoryview]] = []
        start = 0
        while len(self._inbox) - start >= HEADER.size:
            message_bytes, blob_bytes = HEADER.unpack_from(self._inbox, start)
            if message_bytes > MAX_MESSAGE_BYTES or blob_bytes > MAX_BLOB_BYTES:
                raise ProtocolError(f"frame of {message_bytes} + {blob_bytes} bytes exceeds the limits")
            body = start + HEADER.size
            blob = body + message_bytes
            if len(self._inbox) < blob + blob_bytes:
                break
            frames.append(
                (self._decode(bytes(self._inbox[body:blob])), memoryview(self._inbox[blob : blob + blob_bytes]))
            )
            start = blob + blob_bytes
        if start:
            self._inbox = self._inbox[start:]
        return frames

    def _decode(self, body: bytes) -> Incoming:
        try:
            return self._decoder.decode(body)
        except msgspec.DecodeError as error:
            raise ProtocolError(f"malformed message: {error}") from error
