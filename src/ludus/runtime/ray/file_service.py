"""A host's service to its worker: folders of the run brought to the node and back, one order after the other.

Files travel on a line of their own (`file_line.py`) where there is one, else piece by piece in calls of Ray. Invariant:
an order that a line leaves half done is done to its end by calls, from where it stopped.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path, PurePosixPath

from ludus.errors import LudusError, ProtocolError, StorageError
from ludus.runtime.channel import Channel
from ludus.runtime.ray.file_line import FileLine
from ludus.runtime.ray.hashing import new_digest
from ludus.runtime.ray.messages import PIECE_BYTES, FileAnswer, FileWant, Line
from ludus.runtime.ray.node_cache import NodeCache
from ludus.runtime.remote_files import ANSWER_S, Done, FetchFolder, FileOrder, HandOver, ListFolders, LookForFolder

log = logging.getLogger(__name__)


class FileService:
    """Serves one worker in a thread of its own. `ask` brings the loop's answer to a want by calls of Ray."""

    def __init__(self, path: Path, ask: Callable[[FileWant], FileAnswer], line: Line | None = None) -> None:
        """`path` is the socket that the worker connects to."""
        self._ask, self._numbers, self._cache = ask, count(1), NodeCache()
        self._line = FileLine(line) if line and line.host else None
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(1)
        threading.Thread(target=self._serve, name="files", daemon=True).start()

    def close(self) -> None:
        """Take no worker any more."""
        self._listener.close()

    def _serve(self) -> None:
        try:
            connection, _ = self._listener.accept()
            with connection:
                channel: Channel[FileOrder] = Channel(connection, FileOrder)
                while True:
                    for order, _ in channel.wait(None):
                        channel.send(self._carry_out(order))
                        channel.drain(ANSWER_S)
        except (EOFError, OSError, ProtocolError):
            log.info("the worker asks for no more files")

    def _carry_out(self, order: FileOrder) -> Done:
        try:
            if isinstance(order, LookForFolder):
                return Done(is_there=self._want("look", root=order.root, name=order.name).is_there)
            if isinstance(order, ListFolders):
                return Done(names=self._want("folders", name=order.name).names)
            if isinstance(order, FetchFolder):
                return self._fetch(order)
            self._hand_over(order)
            return Done()
        except (LudusError, OSError) as error:
            return Done(problem=str(error))
        finally:
            if self._line is not None:
                self._line.close()

    def _new_want(self, kind: str, **fields: object) -> FileWant:
        return FileWant(number=next(self._numbers), kind=kind, **fields)  # type: ignore[arg-type]

    def _want(self, kind: str, **fields: object) -> FileAnswer:
        """Ask for something small: on the line, else by calls."""
        want = self._new_want(kind, **fields)
        answer = None if self._line is None else self._line.ask(want)
        return _checked(self._ask(want) if answer is None else answer)

    def _call(self, kind: str, **fields: object) -> FileAnswer:
        """Ask by calls."""
        return _checked(self._ask(self._new_want(kind, **fields)))

    def _list(self, root: str, name: str, *, is_hasty: bool = False) -> FileAnswer:
        return self._want("list", root=root, name=name, is_hasty=is_hasty)

    def _fetch(self, order: FetchFolder) -> Done:
        found = self._list(order.root, order.name, is_hasty=True)
        if not found.is_there:
            return Done(is_there=False)
        into = Path(order.into)
        if not found.is_file:
            into.mkdir(parents=True, exist_ok=True)
        for mark in found.files:
            name = order.name if found.is_file else str(PurePosixPath(order.name, mark.name))
            self._cache.bring(
                mark,
                into if found.is_file else into / mark.name,
                partial(self._pieces, order.root, name, mark.size),
                partial(self._hash_of, order.root, name),
            )
        return Done()

    def _hash_of(self, root: str, name: str) -> str:
        """What a file's hash is, that was listed in haste."""
        return self._list(root, name).files[0].digest

    def _pieces(self, root: str, name: str, size: int) -> Iterator[bytes | memoryview]:
        """The bytes of a file of the loop's machine."""
        offset = 0
        if self._line is not None:
            for part in self._line.read(self._new_want("read", root=root, name=name)):
                offset += len(part)
                yield part
        while offset < size:
            piece = self._call("read", root=root, name=name, offset=offset).data
            if not piece:
                raise StorageError(f"{name} has become shorter on its way")
            offset += len(piece)
            yield piece

    def _hand_over(self, order: HandOver) -> None:
        for path in sorted(Path(order.folder).iterdir()):
            self._upload(path, f"{order.name}/{path.name}")

    def _upload(self, path: Path, name: str) -> None:
        if self._line is not None:
            answer = self._line.write(self._new_want("write", name=name, size=path.stat().st_size), path)
            if answer is not None:
                _checked(answer)
                return
        digest, offset, size = new_digest(), 0, path.stat().st_size
        with path.open("rb") as file:
            while True:
                data = file.read(PIECE_BYTES)
                digest.update(data)
                is_last = offset + len(data) >= size
                self._call("write", name=name, offset=offset, data=data, digest=digest.hexdigest() if is_last else "")
                offset += len(data)
                if is_last:
                    return


def _checked(answer: FileAnswer) -> FileAnswer:
    """An answer; raises StorageError where it is a problem."""
    if answer.problem:
        raise StorageError(answer.problem)
    return answer
