"""Files of a run on connections of their own: what the loop's machine and a node say there, and the node's end.

A call of Ray copies what it carries many times; here the kernel sends a file as it is. What crosses is a token, then
frames of `<u32 bytes><msgpack>`; after the answer to `read` come the bytes of the file, and after that to `write` go
those of the new one, with their hash. Invariant: no wait at either end is without a bound, and a line that cannot be
had, or is lost, costs time only: the same is then asked by calls of Ray.
"""

from __future__ import annotations

import logging
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import TypeVar

import msgspec

from ludus.errors import StorageError
from ludus.runtime.ray.hashing import new_digest
from ludus.runtime.ray.messages import FileAnswer, FileWant, Line

log = logging.getLogger(__name__)

LENGTH = struct.Struct("<I")
MOST_FRAME_BYTES = 16 * 2**20
BUFFER_BYTES = 2**20
TOKEN_BYTES = DIGEST_BYTES = 32
CONNECT_S = 3.0
"""Who does not answer within this is behind a firewall."""
RETRY_S = 60.0
"""For so long a line that could not be had is not asked for again."""
QUIET_S = 30.0
"""A transfer on which nothing moves for so long is given up."""
HASHING_S = 600.0
"""The loop's side may take so long to list a folder: it reads large files once."""

Frame = TypeVar("Frame")


class FileLine:
    """The node's end, opened with the first want of an order. For one thread."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._socket: socket.socket | None = None
        self._retry_at = 0.0

    def ask(self, want: FileWant) -> FileAnswer | None:
        """The answer to a want; None when there is no line."""
        if time.monotonic() < self._retry_at:
            return None
        try:
            sock = self._open()
            send_frame(sock, want)
            return read_frame(sock, FileAnswer, HASHING_S)
        except (OSError, EOFError, ValueError) as error:
            self._lose(error)
            return None

    def read(self, want: FileWant) -> Iterator[memoryview]:
        """The bytes of a file, each piece until the next is asked for; ends early when the line is lost.

        Raises:
            StorageError: the loop's side does not have it.
        """
        answer = self.ask(want)
        if answer is None or (sock := self._socket) is None:
            return
        if answer.problem:
            raise StorageError(answer.problem)
        try:
            yield from read_pieces(sock, answer.size)
        except (OSError, EOFError) as error:
            self._lose(error)

    def write(self, want: FileWant, path: Path) -> FileAnswer | None:
        """Have the bytes of a file written where it is wanted; None when the line was lost before that was said."""
        answer = self.ask(want)
        if answer is None or answer.problem or (sock := self._socket) is None:
            return answer
        try:
            digest, buffer = new_digest(), memoryview(bytearray(BUFFER_BYTES))
            with path.open("rb", buffering=0) as file:
                while count := file.readinto(buffer):
                    digest.update(buffer[:count])
                    sock.sendall(buffer[:count])
            sock.sendall(digest.digest())
            return read_frame(sock, FileAnswer, HASHING_S)
        except (OSError, EOFError, ValueError) as error:
            self._lose(error)
            return None

    def close(self) -> None:
        """The order is carried out."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _open(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection((self._line.host, self._line.port), CONNECT_S)
            tune(self._socket)
            self._socket.sendall(bytes.fromhex(self._line.token))
        return self._socket

    def _lose(self, error: Exception) -> None:
        log.warning("files come by calls of Ray: the line to %s is lost (%s)", self._line.host, error)
        self._retry_at = time.monotonic() + RETRY_S
        self.close()


def tune(sock: socket.socket) -> None:
    """Small frames go at once; a peer that is cut off is noticed."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * QUIET_S))
    sock.settimeout(QUIET_S)


def send_frame(sock: socket.socket, message: msgspec.Struct) -> None:
    """Send one message."""
    body = msgspec.msgpack.encode(message)
    sock.sendall(LENGTH.pack(len(body)) + body)


def read_frame(sock: socket.socket, kind: type[Frame], within_s: float) -> Frame:
    """Wait so long for one message. Raises OSError, EOFError or ValueError."""
    end = time.monotonic() + within_s
    (count,) = LENGTH.unpack(read_exactly(sock, LENGTH.size, end))
    if count > MOST_FRAME_BYTES:
        raise ValueError(f"a frame of {count} bytes")
    return msgspec.msgpack.decode(read_exactly(sock, count, end), type=kind)


def read_exactly(sock: socket.socket, count: int, end: float) -> bytes:
    """So many bytes, all of them before `end`."""
    data = bytearray()
    try:
        while len(data) < count:
            sock.settimeout(max(end - time.monotonic(), 0.001))
            if not (piece := sock.recv(count - len(data))):
                raise EOFError("the other end has closed the line")
            data += piece
    finally:
        with suppress(OSError):
            sock.settimeout(QUIET_S)
    return bytes(data)


def read_pieces(sock: socket.socket, size: int) -> Iterator[memoryview]:
    """So many bytes in large pieces; each stays as it is until the one after the next is asked for."""
    buffers = cycle([memoryview(bytearray(min(BUFFER_BYTES, size))) for _ in range(2)])
    while size:
        piece = next(buffers)[:size]
        have = 0
        while have < len(piece):
            if not (count := sock.recv_into(piece[have:])):
                raise EOFError("the other end has closed the line")
            have += count
        size -= have
        yield piece
