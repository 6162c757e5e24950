"""Chromium before `ludus web`, before real runs. `make test-web` installs what this needs, and runs it.

A page that logs an error, raises one, or asks another host for anything fails the test that opened it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.browser.real_runs import LUDUS, make_all

from ludus.web.static_page import BUILT, INDEX

AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or ""
CHROMIUM_FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
PATIENCE_MS = 120_000


@pytest.fixture(scope="session", autouse=True)
def _everything_is_here() -> None:
    pytest.importorskip("playwright", reason="Playwright is not installed: make test-web")
    for there, what in ((CHROMIUM, "Chromium"), (AXE.exists(), "axe-core"), ((BUILT / INDEX).exists(), "the page")):
        if not there:
            pytest.skip(f"{what} is not installed: make test-web")


@dataclass(frozen=True, slots=True)
class Web:
    """A `ludus web` that runs."""

    url: str
    """The address that it printed, with the token where it has one."""
    process: subprocess.Popen[str]

    @property
    def origin(self) -> str:
        return self.url.partition("/#")[0].rstrip("/")

    def get(self, path: str) -> Any:
        """What a program is told at an address below `/api/`."""
        with urllib.request.urlopen(f"{self.origin}/api/{path}", timeout=60) as answer:  # noqa: S310  our own server
            return json.load(answer)

    def of(self, run: str, page: str = "", query: str = "") -> str:
        """The address of a page of a run."""
        return f"{self.origin}/run/{quote(run, safe='')}{page and '/'}{page}{query and '?'}{query}"


@contextmanager
def web_of(folder: Path, *options: str) -> Iterator[Web]:
    """Start `ludus web` as a person would, on any free port."""
    process = subprocess.Popen([*LUDUS, "web", str(folder), "--port", "0", *options], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found, "ludus web prints its address first"
        yield Web(found[0], process)
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of each kind. Read only."""
    return make_all(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def web(runs: Path) -> Iterator[Web]:
    """`ludus web` before all of them; it only reads."""
    with web_of(runs) as found:
        yield found


@pytest.fixture
def serve() -> Iterator[Callable[..., Web]]:
    """Starts servers that end with the test."""
    with ExitStack() as stack:
        yield lambda folder, *options: stack.enter_context(web_of(folder, *options))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(CHROMIUM_FLAGS))
        yield browser
        browser.close()


class Complaints:
    """What a page did that none may do."""

    def __init__(self, context: Any) -> None:
        self.said: list[str] = []
        self.hosts: set[str] = set()
        self.expected: tuple[str, ...] = ()
        context.on("console", self._log)
        context.on("weberror", lambda error: self.said.append(str(error.error)))
        context.on("request", lambda request: self.hosts.add(request.url.split("/")[2] if "//" in request.url else ""))

    def _log(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.said.append(f"{message.text} ({message.location.get('url', '')})")

    def check(self) -> None:
        assert [each for each in self.said if not any(part in each for part in self.expected)] == []
        assert all(re.fullmatch(r"127\.0\.0\.1:\d+|", host) for host in self.hosts), self.hosts


@pytest.fixture
def complaints() -> list[Complaints]:
    return []


@pytest.fixture
def open_page(
    chromium: Any,
    complaints: list[Complaints],
    serve: object,  # servers end after the pages
) -> Iterator[Callable[..., Any]]:
    """Opens a page in a browser that knows nothing yet; at the end it must have had nothing to complain about."""
    contexts = []

    def opened(address: str = "", **options: Any) -> Any:
        context = chromium.new_context(**{"viewport": WIDE, "color_scheme": "light", **options})
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        complaints.append(Complaints(context))
        page = context.new_page()
        if address:
            page.goto(address)
            settle(page)
        return page

    yield opened
    for context in contexts:
        context.close()
    for each in complaints:
        each.check()


def settle(page: Any) -> None:
    """Wait until everything that the view asked for is there and nothing moves."""
    page.wait_for_function(
        """() => document.querySelector('#content') && document.querySelector('#content').children.length > 0
            && !document.querySelector('#content').textContent.match(/Reading…|Looking into the run…/)"""
    )
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
