"""Running the application on a socket: for the command, until it is interrupted; for tests and notebooks, in a thread.

Invariant: the socket is bound before anything else happens, so a port that is taken is one clear error, and clients may
connect from then on.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from ludus.errors import ConfigError, WorkerError
from ludus.http.access import check_reach
from ludus.http.loop_server import server_config

SHUTDOWN_S = 10
"""What replies in flight are given to finish when the server stops."""


def bind(host: str, port: int, *, token: str) -> socket.socket:
    """A listening socket.

    Raises:
        ConfigError: the address cannot be used, or others could reach it and there is no token.
    """
    check_reach(host, token)
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        check_reach(str(address[0]), token)
        listener = socket.create_server((str(address[0]), port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"--host {host} --port {port}: {error}; choose another with --host and --port") from error
    return listener


def url_of(listener: socket.socket) -> str:
    """Where clients find the API."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"


def run(app: ASGIApp, listener: socket.socket) -> None:
    """Serve until the process is asked to stop."""
    uvicorn.Server(_config(app)).run(sockets=[listener])


@contextlib.contextmanager
def serving(app: ASGIApp, *, host: str = "127.0.0.1", port: int = 0, token: str = "") -> Iterator[str]:
    """Serve in a thread while the context is open; gives the URL of the API."""
    with bind(host, port, token=token) as listener:
        server = uvicorn.Server(_config(app))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="ludus-serve", daemon=True)
        thread.start()
        try:
            yield url_of(listener)
        finally:
            server.should_exit = True
            thread.join(2 * SHUTDOWN_S)
            if thread.is_alive():
                raise WorkerError("the server did not stop")


def _config(app: ASGIApp) -> uvicorn.Config:
    return server_config(app, shutdown_s=SHUTDOWN_S)
