"""What loop, connection and hosts say to each other. Between connection and host each is the `bytes` of one call."""

from __future__ import annotations

import msgspec

from ludus.runtime.needs import Needs, Plan
from ludus.runtime.ray.nodes import NodeRoom

PIECE_BYTES = 4 * 2**20
"""Most bytes of a stream or a file in one call."""
NODES_S = 60.0
"""Nodes may take so long to say what is installed there: a busy one needs seconds to start a process for us."""
WAITING_BYTES = 16 * 2**20
"""Bytes of a stream that wait at one place, at most, besides the frame that is being read."""


ADDRESS = "LUDUS_NODE_ADDRESS"
"""The variable that tells a worker by which address other machines reach its own."""


class NodeQuestion(msgspec.Struct, kw_only=True):
    """What each node of a joined cluster is asked before anything begins there."""

    module: str
    """One of ours, whose `node_problem` gets the values and tells what is wrong there; nothing if all is well."""
    values: list[str]


class Connect(msgspec.Struct, tag="connect", kw_only=True):
    """First message to the connection: which cluster."""

    address: str
    """Empty to start a cluster on this machine."""
    folder: str
    """For files of a cluster that is started."""
    asks: list[NodeQuestion] = []
    environment: dict[str, str] = {}
    """Variables that workers get."""
    plan: Plan = Plan()
    """What the run needs; it must fit before anything is started."""
    is_look: bool = False
    """Only tell which nodes there are."""


class FilesOf(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a worker may have."""

    run: str = ""
    """The directory of the run that it works for; empty where there is none."""
    outside: tuple[tuple[str, str], ...] = ()
    """Files and folders that it may have besides: what the config calls each, and where it is."""
    links: tuple[str, ...] = ()
    """Folders that links of the run lead to."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """Where a host may have files over a connection of its own."""

    host: str = ""
    """Empty where there is none."""
    port: int = 0
    token: str = ""
    """In hex."""


class Launch(msgspec.Struct, tag="launch", kw_only=True):
    """Start a worker. Its log, socket, pulse, life pipe and report pipe come with the message."""

    number: int
    """Of this start, among all of this connection."""
    name: str
    module: str
    imports: list[str]
    threads: int
    devices: int
    incarnation: int
    environment: dict[str, str]
    """Variables that libraries read and that make results differ, as the loop has them."""
    files: FilesOf
    needs: Needs = Needs(cpus=1)
    line: Line = Line()
    """Filled in by the connection."""


class Signal(msgspec.Struct, tag="signal", kw_only=True):
    """Kill a worker, or have it write its stacks to its log."""

    number: int
    is_kill: bool


class Connected(msgspec.Struct, tag="connected", kw_only=True):
    """The connection is ready to launch."""

    address: str
    cpus: list[float] = []
    """Of each node."""
    nodes: list[NodeRoom] = []
    """Of a look, the first of them."""
    count: int
    """How many there are."""


class Reached(msgspec.Struct, tag="reached", kw_only=True):
    """A step towards the connection is done; the next one may take so long."""

    next_s: float


class Waits(msgspec.Struct, tag="waits", kw_only=True):
    """What is waited for: before there is a connection, or for a place of a worker."""

    reason: str
    number: int = 0
    """Of the start of a worker; 0 before there is a connection."""


class Placed(msgspec.Struct, tag="placed", kw_only=True):
    """A worker has a node."""

    number: int
    node: str


class Room(msgspec.Struct, tag="room", kw_only=True):
    """The cluster as it is now. Said when it has changed."""

    nodes: int
    table: list[NodeRoom] = []
    """The first of them."""
    spare: int
    """Further explorers that it has room for."""
    seen: int
    """The last launch that is counted in."""


class Sent(msgspec.Struct, tag="sent", kw_only=True):
    """A file of the run begins its way to a node."""

    node: str
    name: str
    size: int


class Refused(msgspec.Struct, tag="refused", kw_only=True):
    """There is no connection, and why; the process ends after this."""

    reason: str


ToConnection = Connect | Launch | Signal
FromConnection = Connected | Refused | Reached | Waits | Placed | Room | Sent


class NodeVersions(msgspec.Struct, kw_only=True):
    """What is installed on a node, and what is wrong there."""

    ray: str
    python: str
    ludus: str
    problem: str = ""


class FileMark(msgspec.Struct, kw_only=True):
    """A file by its name in its folder, and its content."""

    name: str
    size: int
    digest: str
    """Its hash (`hashing.py`). Empty where it was asked for in haste, and is not known yet."""
    key: str = ""
    """Tells this file, as it is now, from all others before its hash is known."""


class FileWant(msgspec.Struct, kw_only=True):
    """What a host asks of the run's files: one thing at a time."""

    number: int
    kind: str
    """`look` whether something is there, `list` a folder's files, `folders` those in it, `read` a piece of a file,
    `write` a piece of a new file. On a line the last two are of the whole file."""
    root: str = ""
    """Empty for the run directory; else what the config names outside it, or a path in the run."""
    name: str = ""
    offset: int = 0
    data: bytes = b""
    digest: str = ""
    """With the last piece of a new file: the hash of the whole."""
    size: int = 0
    """Of a new file that is handed over on a line."""
    is_hasty: bool = False
    """Of `list`: do not wait for the hashes of large files."""


class FileAnswer(msgspec.Struct, kw_only=True):
    """The answer to a want."""

    number: int
    problem: str = ""
    is_there: bool = True
    is_file: bool = False
    """Whether what was to be listed is a file."""
    files: list[FileMark] = []
    names: list[str] = []
    """Of folders."""
    data: bytes = b""
    size: int = 0
    """Of the file that follows on a line."""


class Put(msgspec.Struct, kw_only=True):
    """Bytes for the worker."""

    offset: int
    """Of the first of them in the whole stream: what the host has already, it passes over."""
    data: bytes


class PutDone(msgspec.Struct, kw_only=True):
    """How far the host has the stream."""

    have: int


class Take(msgspec.Struct, kw_only=True):
    """Ask for what is new."""

    have: int
    """How far the caller has the worker's stream,"""
    log_have: int
    """and its log."""
    most: int
    """Bytes of the stream that it can take now."""
    answer: FileAnswer | None = None
    """To what the host wanted last."""


class Taken(msgspec.Struct, kw_only=True):
    """What is new of a worker."""

    data: bytes
    log: bytes
    pulse: list[int]
    """Words of its page."""
    cpu_ms: int
    pid: int = 0
    """0 before it has begun."""
    is_closed: bool = False
    """Whether its stream has ended, with `data`."""
    exit: int | None = None
    """Its exit code, once stream and log are told to the end."""
    want: FileWant | None = None
