"""A server in the event loop of whoever starts it: it answers while that loop runs. On this machine's own address.

Invariant: the socket is bound before anything else happens, so clients may connect from then on; nothing that the
process does with signals is changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Generator

import uvicorn
from starlette.types import ASGIApp

HOST = "127.0.0.1"
SHUTDOWN_S = 1
"""What answers in flight are given to finish when the server stops."""


def server_config(app: ASGIApp, *, shutdown_s: int) -> uvicorn.Config:
    """How the API is served: no logs of requests, no headers of proxies believed, no web sockets."""
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        lifespan="on",
        ws="none",
        timeout_graceful_shutdown=shutdown_s,
    )


class LoopServer:
    """A running server. Made in the loop that it runs in."""

    def __init__(self, app: ASGIApp) -> None:
        self._listener = socket.create_server((HOST, 0), backlog=2048)
        self.url = f"http://{HOST}:{self._listener.getsockname()[1]}/v1"
        self._server = _SignalsLeftAlone(server_config(app, shutdown_s=SHUTDOWN_S))
        self._serving = asyncio.get_running_loop().create_task(self._server.serve(sockets=[self._listener]))

    async def stop(self) -> None:
        """Stop answering; what is in flight is given up after a moment."""
        self._server.should_exit = True
        await self._serving
        self._listener.close()


class _SignalsLeftAlone(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield
