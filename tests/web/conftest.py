"""A server over real sockets, before a folder with an old run, and a way to say anything to it."""

from __future__ import annotations

import http.client
import json
import shutil
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ludus.http.server import serving
from ludus.web.app import make_app
from ludus.web.runs_folder import RunsFolder
from ludus.web.security.sessions import Sessions
from ludus.web.site import Site
from ludus.web.static_page import File

FIXTURES = Path(__file__).parents[1] / "fixtures" / "runs"
INDEX = b"<!doctype html><title>ludus</title>"
PAGE = {
    "index.html": File(body=INDEX, media_type="text/html", tag='"1"'),
    "assets/a.js": File(body=b"1", media_type="text/javascript", tag='"2"'),
}


@dataclass
class Answer:
    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Server:
    """One that runs, and what a browser would keep of it."""

    port: int
    site: Site
    cookie: str = ""
    csrf: str = ""

    def ask(self, path: str, method: str = "GET", *, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        own = {"cookie": self.cookie} if self.cookie else {}
        if body is not None:
            own |= {"content-type": "application/json", "x-ludus-csrf": self.csrf}
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            connection.putrequest(method, path, skip_host="host" in (headers or {}), skip_accept_encoding=True)
            sent = {**own, **(headers or {}), **({"content-length": str(len(data))} if data is not None else {})}
            for name, value in sent.items():
                connection.putheader(name, value)
            connection.endheaders(data)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()})
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        answer = self.ask(path)
        assert answer.status == 200, answer.body
        return answer.json

    def enter(self, token: str | None = None) -> Answer:
        """As the page does when it opens."""
        answer = self.ask("/api/session") if token is None else self.ask("/api/session", "POST", body={"token": token})
        if "set-cookie" in answer.headers:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
            self.csrf = answer.json["csrf"]
        return answer


Serve = Callable[..., Server]


@contextmanager
def server_of(folder: Path, **options: Any) -> Iterator[Server]:
    site = Site(RunsFolder(folder), Sessions(**options))
    with serving(make_app(site, PAGE), most_connections=64) as url:
        yield Server(int(url.rpartition(":")[2].partition("/")[0]), site)


@pytest.fixture(scope="session")
def old_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of Kuhn poker. Read only: copy it with `copy_run`."""
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(FIXTURES / "after_reshape.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "after_reshape"


@pytest.fixture
def runs(tmp_path: Path, old_run: Path) -> Path:
    """A folder with one run in it."""
    folder = tmp_path / "runs"
    shutil.copytree(old_run, folder / "study" / "kuhn")
    return folder


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers that end with the test."""
    with ExitStack() as stack:
        yield lambda folder, **options: stack.enter_context(server_of(folder, **options))
