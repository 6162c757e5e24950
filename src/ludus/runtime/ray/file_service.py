"""A host's service to its worker: folders of the run brought to the node and back, one order after the other."""

from __future__ import annotations

import hashlib
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path, PurePosixPath

from ludus.errors import LudusError, ProtocolError, StorageError
from ludus.runtime.channel import Channel
from ludus.runtime.ray.messages import PIECE_BYTES, FileAnswer, FileWant
from ludus.runtime.ray.node_cache import NodeCache
from ludus.runtime.remote_files import ANSWER_S, Done, FetchFolder, FileOrder, HandOver, LookForFolder

log = logging.getLogger(__name__)


class FileService:
    """Serves one worker in a thread of its own. `ask` brings the loop's answer to a want."""

    def __init__(self, path: Path, ask: Callable[[FileWant], FileAnswer]) -> None:
        """`path` is the socket that the worker connects to."""
        self._ask, self._numbers, self._cache = ask, count(1), NodeCache()
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
            if isinstance(order, FetchFolder):
                return self._fetch(order)
            self._hand_over(order)
            return Done()
        except (LudusError, OSError) as error:
            return Done(problem=str(error))

    def _want(self, kind: str, **fields: object) -> FileAnswer:
        answer = self._ask(FileWant(number=next(self._numbers), kind=kind, **fields))  # type: ignore[arg-type]
        if answer.problem:
            raise StorageError(answer.problem)
        return answer

    def _list(self, root: str, name: str) -> FileAnswer:
        return self._want("list", root=root, name=name)

    def _fetch(self, order: FetchFolder) -> Done:
        found = self._list(order.root, order.name)
        if not found.is_there:
            return Done(is_there=False)
        into = Path(order.into)
        if not found.is_file:
            into.mkdir(parents=True, exist_ok=True)
        for mark in found.files:
            name = order.name if found.is_file else str(PurePosixPath(order.name, mark.name))
            self._cache.bring(
                mark, into if found.is_file else into / mark.name, partial(self._pieces, order.root, name, mark.size)
            )
        return Done()

    def _pieces(self, root: str, name: str, size: int) -> Iterator[bytes]:
        """The bytes of a file of the loop's machine."""
        offset = 0
        while offset < size:
            piece = self._want("read", root=root, name=name, offset=offset).data
            if not piece:
                raise StorageError(f"{name} has become shorter on its way")
            offset += len(piece)
            yield piece

    def _hand_over(self, order: HandOver) -> None:
        for path in sorted(Path(order.folder).iterdir()):
            self._upload(path, f"{order.name}/{path.name}")

    def _upload(self, path: Path, name: str) -> None:
        digest, offset, size = hashlib.sha256(), 0, path.stat().st_size
        with path.open("rb") as file:
            while True:
                data = file.read(PIECE_BYTES)
                digest.update(data)
                is_last = offset + len(data) >= size
                self._want("write", name=name, offset=offset, data=data, sha256=digest.hexdigest() if is_last else "")
                offset += len(data)
                if is_last:
                    return
