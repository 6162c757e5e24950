"""Running an application on a socket: until the process is interrupted, in a thread, or in a running event loop.

Invariant: the socket is bound before anything else happens, so a port that is taken is one clear error, and clients may
connect from then on.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Generator, Iterator

import uvicorn
from starlette.types import ASGIApp

from ludus.errors import ConfigError, WorkerError
from ludus.http.deadlines import DeadlineProtocol
from ludus.http.routes import check_reach

HOST = "127.0.0.1"
SHUTDOWN_S = 10
"""What replies in flight are given to finish when the server stops."""
LOOP_SHUTDOWN_S = 1
"""The same for a server in somebody else's event loop."""


def bind(host: str, port: int, *, token: str, remedy: str = "") -> socket.socket:
    """A listening socket. `remedy` says how the server is given a token, where it is not by its variable.

    Raises:
        ConfigError: the address cannot be used, or others could reach it and there is no token.
    """
    more = (remedy,) if remedy else ()
    check_reach(host, token, *more)
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        check_reach(str(address[0]), token, *more)
        listener = socket.create_server((str(address[0]), port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"--host {host} --port {port}: {error}; choose another with --host and --port") from error
    return listener


def origin_of(listener: socket.socket) -> str:
    """The server's address."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def url_of(listener: socket.socket) -> str:
    """Where clients find the API."""
    return f"{origin_of(listener)}/v1"


def run(
    app: ASGIApp,
    listener: socket.socket,
    *,
    shutdown_s: int = SHUTDOWN_S,
    most_connections: int | None = None,
    on_shutdown: Callable[[], None] = lambda: None,
) -> None:
    """Serve until the process is asked to stop. Connections beyond the most are answered with 503.

    `on_shutdown` ends replies that would go on for ever, before they are waited for.
    """
    _Server(_config(app, shutdown_s, most_connections), on_shutdown).run(sockets=[listener])


@contextlib.contextmanager
def serving(
    app: ASGIApp, *, host: str = HOST, port: int = 0, token: str = "", most_connections: int | None = None
) -> Iterator[str]:
    """Serve in a thread while the context is open; gives the URL of the API."""
    with bind(host, port, token=token) as listener:
        server = uvicorn.Server(_config(app, SHUTDOWN_S, most_connections))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="ludus-serve", daemon=True)
        thread.start()
        try:
            yield url_of(listener)
        finally:
            server.should_exit = True
            thread.join(2 * SHUTDOWN_S)
            if thread.is_alive():
                raise WorkerError("the server did not stop")


class LoopServer:
    """A server in the event loop that makes it, on this machine's own address. Signal handlers are left as they are."""

    def __init__(self, app: ASGIApp) -> None:
        self._listener = socket.create_server((HOST, 0), backlog=2048)
        self.url = f"http://{HOST}:{self._listener.getsockname()[1]}/v1"
        self._server = _SignalsLeftAlone(_config(app, LOOP_SHUTDOWN_S))
        self._serving = asyncio.get_running_loop().create_task(self._server.serve(sockets=[self._listener]))

    async def stop(self) -> None:
        """Stop answering; what is in flight is given up after a moment."""
        self._server.should_exit = True
        await self._serving
        self._listener.close()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_shutdown: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_shutdown = on_shutdown

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_shutdown()
        await super().shutdown(sockets)


class _SignalsLeftAlone(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def _config(app: ASGIApp, shutdown_s: int, most_connections: int | None = None) -> uvicorn.Config:
    """How the API is served: no logs of requests, no headers of proxies believed, no web sockets."""
    return uvicorn.Config(
        app,
        http=DeadlineProtocol,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        lifespan="on",
        ws="none",
        timeout_graceful_shutdown=shutdown_s,
        limit_concurrency=most_connections,
    )
