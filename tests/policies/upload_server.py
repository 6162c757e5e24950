"""A server on this machine that takes uploads, refuses them or loses its answers, as a test has planned."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BOUND_S = 30.0


class Server(ThreadingHTTPServer):
    """Takes uploads; `plan` says how it answers the first ones: a status, or `drop` for none at all."""

    daemon_threads = True

    def __init__(self, plan: list[int | str]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.plan = list(plan)
        self.taken: dict[str, bytes] = {}
        self.tokens: list[str | None] = []
        self.requests = 0
        self.changed = threading.Condition()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/upload?secret=x"

    def files(self) -> list[tuple[str, bytes]]:
        """Names and contents that came, one for each key."""
        with self.changed:
            bodies = list(self.taken.values())
        found = []
        for body in bodies:
            head, _, rest = body.partition(b'filename="')[2].partition(b'"')
            content = rest.partition(b"\r\n\r\n")[2]
            found.append((head.decode(), content[: content.rindex(b"\r\n--")]))
        return found

    def wait(self, requests: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.requests >= requests, BOUND_S)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.changed:
            answer = self.server.plan.pop(0) if self.server.plan else 200
            if answer in (200, "drop"):  # a lost answer: the file has come all the same
                self.server.taken.setdefault(self.headers["Idempotency-Key"], body)
            self.server.tokens.append(self.headers.get("Authorization"))
            self.server.requests += 1
            self.server.changed.notify_all()
        if answer == "drop":
            self.close_connection = True
            return
        self.send_response(int(answer))
        self.end_headers()
        self.wfile.write(b"thanks")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving(*plan: int | str) -> Iterator[Server]:
    server = Server(list(plan))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
