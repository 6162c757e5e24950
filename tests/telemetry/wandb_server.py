"""A server that answers Weights & Biases' client well enough for it to upload a run, or fails it in a chosen way."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

Behaviour = Literal["answers", "fails", "hangs"]


class WandbServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, behaviour: Behaviour) -> None:
        super().__init__(("127.0.0.1", 0), _Requests)
        self.behaviour = behaviour
        self._history: dict[str, dict[int, dict[str, Any]]] = {}
        self.upserts: list[dict[str, Any]] = []
        self.was_asked = threading.Event()
        self.is_over = threading.Event()

    def history(self, run: str) -> list[dict[str, Any]]:
        """Lines of a run, each where the client put it."""
        lines = self._history.get(run, {})
        return [lines[place] for place in sorted(lines)]

    def take(self, run: str, start: int, lines: list[str]) -> None:
        """Lines from a place on."""
        self._history.setdefault(run, {}).update({start + n: json.loads(line) for n, line in enumerate(lines)})

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The client may leave when it likes."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serving(behaviour: Behaviour) -> Iterator[WandbServer]:
    server = WandbServer(behaviour)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.is_over.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Requests(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: WandbServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.was_asked.set()
        if self.server.behaviour == "hangs":
            self.server.is_over.wait(120)
            self.close_connection = True
            return
        if self.server.behaviour == "fails":
            self._answer({"error": "out of order"}, 500)
            return
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if self.path == "/graphql":
            self._answer(self._graphql(json.loads(body)))
        else:
            self._answer(self._take(json.loads(body)) if self.path.endswith("/file_stream") else {})

    def do_GET(self) -> None:
        self._answer({})

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer({})

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody wants to know."""

    def _graphql(self, asked: dict[str, Any]) -> dict[str, Any]:
        given = asked.get("variables") or {}
        if "upsertBucket" in asked["query"]:
            self.server.upserts.append(given)
            project = {"id": "p", "name": given["project"] or "p", "entity": {"id": "e", "name": "someone"}}
            bucket = {"id": "b", "name": given["name"], "displayName": given["displayName"], "project": project}
            bucket |= {"description": "", "config": "{}", "sweepName": None, "historyLineCount": 0}
            return {"data": {"upsertBucket": {"bucket": bucket, "inserted": True}}}
        if "createRunFiles" in asked["query"]:
            files = [{"name": name, "uploadUrl": f"{self.server.url}/upload"} for name in given["files"]]
            return {"data": {"createRunFiles": {"runID": "b", "uploadHeaders": [], "files": files}}}
        if "RunResumeStatus" in asked["query"] and (known := self.server.history(given["name"])):
            counts = {"historyLineCount": len(known), "eventsLineCount": 0, "logLineCount": 0}
            tails = {"historyTail": json.dumps([json.dumps(known[-1])]), "eventsTail": "[]", "summaryMetrics": "{}"}
            more = {"config": "{}", "tags": [], "notes": "", "displayName": "", "wandbConfig": json.dumps({"t": 1})}
            bucket = {"id": "b", "name": given["name"], **counts, **tails, **more}
            return {
                "data": {"model": {"id": "p", "name": "p", "entity": {"id": "e", "name": "someone"}, "bucket": bucket}}
            }
        return {"data": {}}

    def _take(self, stream: dict[str, Any]) -> dict[str, Any]:
        run = self.path.split("/")[4]
        if history := stream.get("files", {}).get("wandb-history.jsonl"):
            self.server.take(run, history["offset"], history["content"])
        return {}

    def _answer(self, message: dict[str, Any], code: int = 200) -> None:
        body = json.dumps(message).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
