"""The bytes of a worker's connection, on their way through a cluster.

A stream is cut anywhere and counted by offset, as TCP does it: what comes twice is passed over, what is lost is sent
again. Frames are looked at for one thing only: a blob in a file of this machine's memory goes into the stream.
"""

from __future__ import annotations

import array
import mmap
import os
import socket
from collections import deque

from ludus.runtime.channel import HEADER, MAX_BLOB_BYTES, MAX_MESSAGE_BYTES, READ_BYTES

_MOST_FILES = 64


class FrameReader:
    """Reads one end of a worker's connection as plain bytes, without waiting."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        sock.setblocking(False)
        self._inbox = bytearray()
        self._files: deque[int] = deque()
        self._left = 0
        """Bytes of the frame at hand that pass as they are."""
        self._is_garbage = False
        """What is no frame passes as it is: the reader at the other end refuses it."""

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._socket.fileno()

    def read(self) -> bytes:
        """What is there; nothing if nothing is. Raises EOFError when the other side is gone."""
        try:
            size = socket.CMSG_SPACE(_MOST_FILES * array.array("i").itemsize)
            chunk, controls, _, _ = self._socket.recvmsg(READ_BYTES, size, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise EOFError from error
        for level, kind, data in controls:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self._files.extend(array.array("i", data[: len(data) - len(data) % 4]))
        if not chunk:
            raise EOFError
        self._inbox += chunk
        return self._pass_on()

    def _pass_on(self) -> bytes:
        out = bytearray()
        while self._inbox:
            if self._is_garbage or self._left:
                count = len(self._inbox) if self._is_garbage else min(self._left, len(self._inbox))
                out += self._inbox[:count]
                del self._inbox[:count]
                self._left = max(self._left - count, 0)
            elif len(self._inbox) < HEADER.size or not self._begin_frame(out):
                break
        return bytes(out)

    def _begin_frame(self, out: bytearray) -> bool:
        """Look at a header; returns False when more must come first."""
        message_bytes, blob_bytes, in_file, incarnation, number = HEADER.unpack_from(self._inbox)
        body = HEADER.size + message_bytes
        if message_bytes > MAX_MESSAGE_BYTES or blob_bytes > MAX_BLOB_BYTES or (in_file and not self._files):
            self._is_garbage = True
        elif not in_file:
            self._left = body + blob_bytes
        elif len(self._inbox) < body:
            return False
        else:
            out += HEADER.pack(message_bytes, blob_bytes, False, incarnation, number)
            out += self._inbox[HEADER.size : body]
            out += _read_file(self._files.popleft(), blob_bytes)
            del self._inbox[:body]
        return True


def _read_file(file: int, size: int) -> bytes:
    """The bytes of a file in memory; where it has others, as many zeros, which no reader takes for Arrow."""
    try:
        if not size or os.fstat(file).st_size != size:
            return bytes(size)
        with mmap.mmap(file, size, prot=mmap.PROT_READ) as content:
            return bytes(content)
    finally:
        os.close(file)


class SentBytes:
    """A stream's bytes that the other side may not have yet."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._start = 0

    def __len__(self) -> int:
        return len(self._bytes)

    @property
    def end(self) -> int:
        """Offset of the next byte to be added."""
        return self._start + len(self._bytes)

    def add(self, data: bytes) -> None:
        """Put bytes at the end."""
        self._bytes += data

    def drop_until(self, offset: int) -> None:
        """The other side has everything before this offset."""
        count = min(max(offset - self._start, 0), len(self._bytes))
        del self._bytes[:count]
        self._start += count

    def piece(self, most: int) -> bytes:
        """The first bytes that the other side has not said to have."""
        return bytes(self._bytes[:most])
