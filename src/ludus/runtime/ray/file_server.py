"""The loop's end of the lines on which nodes fetch files of the run and hand files over (`file_line.py`).

Invariant: who does not bring the token of a worker that lives is sent away within seconds, and gets nothing else.
"""

from __future__ import annotations

import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable

from ludus.runtime.ray.file_line import (
    DIGEST_BYTES,
    HASHING_S,
    QUIET_S,
    TOKEN_BYTES,
    read_exactly,
    read_frame,
    read_pieces,
    send_frame,
    tune,
)
from ludus.runtime.ray.messages import FileAnswer, FileWant, Line, Sent
from ludus.runtime.ray.run_files import RunFiles, write_new

log = logging.getLogger(__name__)

GREETING_S = 5.0
MOST_LINES = 256
"""Lines that are served at once; others wait to be accepted."""


class HostFiles:
    """The files of a run for one host, whichever way it asks."""

    def __init__(self, files: RunFiles, tell: Callable[[Sent], None], server: FileServer | None = None) -> None:
        """`tell` gets what begins its way to the node; with a `server` the host may use a line."""
        self.files, self._tell, self._server = files, tell, server
        self.node = ""
        """The name of the host's node, once it has one."""
        self.line = Line() if server is None else server.admit(self)
        """For the host."""

    def answer(self, want: FileWant) -> FileAnswer:
        """Do what is wanted by a call of Ray."""
        answer = self.files.answer(want)
        if want.kind == "read" and not want.offset and not answer.problem:
            self.note_sent(want, len(answer.data))
        return answer

    def note_sent(self, want: FileWant, size: int) -> None:
        """A file begins its way."""
        log.info("%s leaves for a node", want.name or want.root)
        self._tell(Sent(node=self.node, name=want.name or want.root, size=size))

    def close(self) -> None:
        """The host is gone."""
        if self._server is not None:
            self._server.dismiss(self.line)


class FileServer:
    """Listens on one address of the loop's machine."""

    def __init__(self, host: str) -> None:
        self._listener = socket.create_server((host, 0), backlog=1024)
        self._guests: dict[bytes, HostFiles] = {}
        self._room = threading.BoundedSemaphore(MOST_LINES)
        threading.Thread(target=self._accept, name="file lines", daemon=True).start()

    def admit(self, guest: HostFiles) -> Line:
        """Make a token for a host."""
        token = secrets.token_bytes(TOKEN_BYTES)
        self._guests[token] = guest
        host, port = self._listener.getsockname()[:2]
        return Line(host=host, port=port, token=token.hex())

    def dismiss(self, line: Line) -> None:
        """A host's token opens nothing any more."""
        self._guests.pop(bytes.fromhex(line.token), None)

    def close(self) -> None:
        """Take nobody any more."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            self._room.acquire()
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), name="file line", daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            with sock:
                tune(sock)
                guest = self._guests.get(read_exactly(sock, TOKEN_BYTES, time.monotonic() + GREETING_S))
                if guest is None:
                    log.warning("somebody asked for files without the token of a worker")
                    return
                while True:
                    _carry_out(sock, guest, read_frame(sock, FileWant, HASHING_S))
        except (OSError, EOFError, ValueError) as error:
            log.debug("a line for files has ended: %s", error)
        finally:
            self._room.release()


def _carry_out(sock: socket.socket, guest: HostFiles, want: FileWant) -> None:
    if want.kind == "read":
        _send_file(sock, guest, want)
    elif want.kind == "write":
        _receive_file(sock, guest, want)
    else:
        send_frame(sock, guest.files.answer(want))


def _send_file(sock: socket.socket, guest: HostFiles, want: FileWant) -> None:
    try:
        file, size = guest.files.open(want)
    except (OSError, ValueError) as error:
        send_frame(sock, FileAnswer(number=want.number, problem=f"{want.name or want.root}: {error}"))
        return
    with file:
        guest.note_sent(want, size)
        send_frame(sock, FileAnswer(number=want.number, size=size))
        if size and sock.sendfile(file, count=size) != size:
            raise EOFError(f"{want.name} has become shorter on its way")


def _receive_file(sock: socket.socket, guest: HostFiles, want: FileWant) -> None:
    """Say that it may come, take it, and say whether it is whole."""
    try:
        path = guest.files.place(want)
    except ValueError as error:
        send_frame(sock, FileAnswer(number=want.number, problem=f"{want.name}: {error}"))
        return
    send_frame(sock, FileAnswer(number=want.number))
    digest = write_new(path, read_pieces(sock, want.size))
    is_whole = read_exactly(sock, DIGEST_BYTES, time.monotonic() + QUIET_S).hex() == digest
    problem = "" if is_whole else f"{want.name}: what arrived does not match its hash"
    send_frame(sock, FileAnswer(number=want.number, problem=problem))
