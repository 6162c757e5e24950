"""Where trainers on several machines meet: trainer 0 listens, the others come with a token, and stay connected.

Invariant: every wait is bounded but one, that for the next order, which ends when the connection does. Nobody is let in
without the token, which the loop alone tells the trainers that it has started.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import select
import socket
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from typing import NoReturn

from ludus.errors import WorkerError
from ludus.train.messages import MeetingPlace

log = logging.getLogger(__name__)

ADDRESS = "LUDUS_NODE_ADDRESS"
"""The variable that has the address by which other machines reach this one; only this machine does without it."""
MEET_S = 300.0
"""All trainers are there within this: they may have to import a framework and load a model."""
GREETING = struct.Struct("<32sI")
GREETING_S = 5.0
LOSS_S = 5.0
"""A collective operation that breaks is noticed before the end of the connection: how long to look for the latter."""
_LOOK_S = 0.2
_SIOCGIFADDR = 0x8915
_NAME_BYTES = 15


class _Guest:
    """Somebody who has come and not yet said all of the greeting. It is never waited for."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._said, self._ends = b"", time.monotonic() + GREETING_S
        sock.setblocking(False)

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self.socket.fileno()

    def rank(self, token: bytes, size: int) -> int | None:
        """Its rank once it has said it; None before. Raises OSError when it is no trainer of this run."""
        with suppress(BlockingIOError):
            piece = self.socket.recv(GREETING.size - len(self._said))
            self._said += piece
            if not piece:
                raise ConnectionError("it ended")
        if len(self._said) < GREETING.size:
            if time.monotonic() > self._ends:
                raise TimeoutError(f"no greeting within {GREETING_S:g} s")
            return None
        said, rank = GREETING.unpack(self._said)
        if not (secrets.compare_digest(said, token) and 0 < rank < size):
            raise PermissionError("wrong token or rank")
        return int(rank)


class Meeting:
    """Trainer 0's side."""

    def __init__(self, interface: str | None = None) -> None:
        """Listen at an interface of this machine. Default: the one that other machines reach."""
        self._listener = socket.create_server((own_address(interface), 0))
        self._token = secrets.token_bytes(32)

    @property
    def place(self) -> MeetingPlace:
        """What the others need to come."""
        host, port = self._listener.getsockname()
        return MeetingPlace(host=host, port=port, token=self._token.hex())

    def await_all(self, size: int, tick: Callable[[], None]) -> list[socket.socket]:
        """Connections to trainers 1, 2, ... in their order; `tick` is called while they are waited for.

        Raises:
            WorkerError: one of them does not come.
        """
        come: dict[int, socket.socket] = {}
        guests: list[_Guest] = []
        end = time.monotonic() + MEET_S
        with self._listener, ExitStack() as leftovers:
            leftovers.callback(lambda: _close(guest.socket for guest in guests))
            while len(come) < size - 1:
                tick()
                if time.monotonic() > end:
                    _close(come.values())
                    absent = next(rank for rank in range(1, size) if rank not in come)
                    raise WorkerError(f"trainer {absent} of {size} did not come within {MEET_S:g} s; its log says why")
                waiting: list[socket.socket | _Guest] = [self._listener, *guests]
                if self._listener in select.select(waiting, [], [], _LOOK_S)[0]:
                    guests.append(_Guest(self._listener.accept()[0]))
                guests = [guest for guest in guests if not self._greet(guest, size, come)]
        return [come[rank] for rank in range(1, size)]

    def _greet(self, guest: _Guest, size: int, come: dict[int, socket.socket]) -> bool:
        """Let a trainer in that has said its greeting, and send strangers away; whether either is done."""
        try:
            rank = guest.rank(self._token, size)
        except OSError as error:
            log.warning("somebody came who is no trainer of this run (%s)", error)
            guest.socket.close()
            return True
        if rank is None:
            return False
        _close([come[rank]] if rank in come else [])  # it has given that connection up
        _keep_alive(guest.socket)
        come[rank] = guest.socket
        return True


def join(place: MeetingPlace, rank: int) -> socket.socket:
    """The connection of trainer `rank` to trainer 0. Raises WorkerError when that is not there."""
    try:
        sock = socket.create_connection((place.host, place.port), MEET_S)
        sock.sendall(GREETING.pack(bytes.fromhex(place.token), rank))
    except OSError as error:
        raise WorkerError(f"trainer 0 cannot be reached at {place.host}:{place.port} ({error})") from error
    _keep_alive(sock)
    return sock


class Peers:
    """The other trainers, as trainer 0 sees them."""

    def __init__(self, sockets: Sequence[socket.socket], *, interface: str | None = None) -> None:
        self.sockets = list(sockets)
        self.interface = interface

    def await_all(self, is_ready: Callable[[int], bool]) -> None:
        """Wait until `is_ready(rank)` of all. Raises WorkerError if one takes too long; ends with one that is lost."""
        deadline = time.monotonic() + MEET_S
        for rank, sock in enumerate(self.sockets, start=1):
            while not is_ready(rank):
                if has_ended(sock):
                    self.give_up(WorkerError(f"trainer {rank} ended before it was ready"))
                if time.monotonic() > deadline:
                    raise WorkerError(f"trainer {rank} was not ready within {MEET_S:g} s; its log says why")
                time.sleep(_LOOK_S)

    def end(self) -> None:
        """Leave them; they end with the connection."""
        for sock in self.sockets:
            sock.close()

    def give_up(self, error: Exception) -> NoReturn:
        """End this process if one of them is lost, which is what the error must come from; else raise the error."""
        end = time.monotonic() + LOSS_S
        while not (lost := [rank for rank, sock in enumerate(self.sockets, start=1) if has_ended(sock)]):
            if time.monotonic() > end:
                raise error
            time.sleep(_LOOK_S)
        log.error("trainer %s was lost; ending too, to be started again together (%s)", lost[0], error)
        raise SystemExit(1) from error


def has_ended(sock: socket.socket) -> bool:
    """Whether the other side has closed its end; what it has sent is left alone."""
    if sock.fileno() < 0:
        return True
    if not select.select([sock], [], [], 0.0)[0]:
        return False
    try:
        return not sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


def own_address(interface: str | None = None) -> str:
    """The address at which other trainers reach this machine. Raises WorkerError for an interface that it lacks."""
    if interface is None:
        return os.environ.get(ADDRESS, "127.0.0.1")
    if (address := _address_of(interface)) is None:
        known = ", ".join(name for _, name in socket.if_nameindex())
        raise WorkerError(f"runtime.interface: there is no {interface} with an IPv4 address here; there are {known}")
    return address


def interface_of(address: str) -> str:
    """The name of the interface that has an address of this machine. Raises WorkerError if none has."""
    names = [name for _, name in socket.if_nameindex()]
    for name in names:
        if _address_of(name) == address:
            return name
    raise WorkerError(
        f"no interface here has the address {address}; write one of {', '.join(names)} as runtime.interface"
    )


def _address_of(interface: str) -> str | None:
    request = struct.pack("256s", interface.encode()[:_NAME_BYTES])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            return socket.inet_ntoa(fcntl.ioctl(sock.fileno(), _SIOCGIFADDR, request)[20:24])
        except OSError:
            return None


def _close(sockets: Iterable[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


def _keep_alive(sock: socket.socket) -> None:
    """Small messages go at once, and a machine that is gone is noticed within a minute."""
    sock.settimeout(None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, 20), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 4)):
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
