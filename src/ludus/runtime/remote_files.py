"""The files of a run on a node that does not see the loop's disk: fetched before they are read, handed over afterwards.

The worker asks the host that started it, over a socket beside its directory; the host has them brought, verified by
hash, or brings them back. Invariant: `fetch` and `writing` end when all files are whole at the other side, or raise.
"""

from __future__ import annotations

import shutil
import socket
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import msgspec

from ludus.errors import StorageError
from ludus.runtime.channel import Channel
from ludus.runtime.node_files import NodeFiles

ANSWER_S = 600.0
"""A large state may take that long on its way."""
MOST_FOLDERS = 32
"""Fetched folders that stay here; the one that was used least recently goes. As many as an actor keeps loaded."""
ABSENT_S = 5.0
"""For so long nobody asks again for a folder that the run does not have."""


class FetchFolder(msgspec.Struct, tag="fetch_folder", kw_only=True):
    """Bring the files of a folder."""

    root: str
    """Empty for the run; else a file or folder outside it, as the config names it."""
    name: str
    """Where it lies below the root."""
    into: str
    """Where it is to be on this node."""


class LookForFolder(msgspec.Struct, tag="look_for_folder", kw_only=True):
    """Say whether the run, or what is outside it, has a folder."""

    name: str
    root: str = ""
    """Empty for the run; else a file or folder outside it, as the config names it."""


class ListFolders(msgspec.Struct, tag="list_folders", kw_only=True):
    """Say which folders are in a folder of the run."""

    name: str


class HandOver(msgspec.Struct, tag="hand_over", kw_only=True):
    """Bring the files of a folder on this node into the run's folder of this name."""

    name: str
    folder: str


class Done(msgspec.Struct, tag="done", kw_only=True):
    """It is done, or why it is not."""

    is_there: bool = True
    names: list[str] = []
    """Of folders."""
    problem: str = ""


FileOrder = FetchFolder | LookForFolder | ListFolders | HandOver


class RemoteFiles(NodeFiles):
    """What a worker on another machine has. For one thread."""

    is_remote = True

    def __init__(self, run: Path, host: Path) -> None:
        """`run` is a directory of this node; `host` is the socket of the process that brings files."""
        super().__init__(run)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(ANSWER_S)
        self._socket.connect(str(host))
        self._channel: Channel[Done] = Channel(self._socket, Done)
        self._roots: dict[Path, str] = {}
        self._fetched: OrderedDict[Path, None] = OrderedDict()
        self._absent: dict[Path, float] = {}

    def outside(self, path: str) -> Path:
        """A file of the loop's machine, brought here; of a folder, the folders that are fetched."""
        here = self.run / "outside" / sha256(path.encode()).hexdigest()[:16] / Path(path).name
        self._roots[here] = path
        self._ask(FetchFolder(root=path, name="", into=str(here)))
        return here

    def model(self, path: str) -> str:
        """A model's folder, brought here. One that the loop's machine has as an id of a hub is this node's to load."""
        return str(self.outside(path)) if self._ask(LookForFolder(root=path, name="")).is_there else path

    def has_folder(self, path: Path) -> bool:
        """Whether the run has a folder."""
        if path in self._fetched or any(known.is_relative_to(path) for known in self._fetched):
            return True
        if time.monotonic() - self._absent.get(path, -ABSENT_S) < ABSENT_S:
            return False
        if self._ask(LookForFolder(name=str(path.relative_to(self.run)))).is_there:
            return True
        self._absent[path] = time.monotonic()
        return False

    def folders(self, path: Path) -> list[str]:
        """The names of the folders in a folder of the run; none where the run does not have it."""
        return self._ask(ListFolders(name=str(path.relative_to(self.run)))).names

    def fetch(self, folder: Path) -> None:
        """Bring the files of a folder, unless they are here; what was not used for long goes."""
        root = next((here for here in self._roots if folder.is_relative_to(here)), self.run)
        name = str(folder.relative_to(root))
        if self._ask(FetchFolder(root=self._roots.get(root, ""), name=name, into=str(folder))).is_there:
            self._fetched[folder] = None
            self._fetched.move_to_end(folder)
            while len(self._fetched) > MOST_FOLDERS:
                shutil.rmtree(self._fetched.popitem(last=False)[0], ignore_errors=True)

    @contextmanager
    def writing(self, folder: Path) -> Iterator[Path]:
        """A folder here whose files are then brought to the run's disk, and leave this node's."""
        folder.mkdir(parents=True)
        try:
            yield folder
            self._ask(HandOver(name=str(folder.relative_to(self.run)), folder=str(folder)))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _ask(self, order: FileOrder) -> Done:
        self._channel.send(order)
        self._channel.drain(ANSWER_S)
        try:
            answers = self._channel.wait(ANSWER_S)
        except EOFError as error:
            raise StorageError("files of the run cannot be had: the host of this worker is gone") from error
        if not answers:
            raise StorageError(f"files of the run did not arrive within {ANSWER_S:g} s")
        done = answers[0][0]
        if done.problem:
            raise StorageError(done.problem)
        return done
