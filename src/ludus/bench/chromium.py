"""A real Chromium without a screen, driven through two pipes: nothing beside the browser has to be installed.

It speaks the DevTools protocol: JSON objects, each ended by a zero byte. Invariant: the browser and its profile are
gone when the context ends, and it asks for nothing outside the pages that it is sent to.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from fcntl import F_DUPFD_CLOEXEC, fcntl
from pathlib import Path
from typing import Any

from ludus.errors import LudusError

NAMES = ("chromium", "chromium-browser", "google-chrome")
INSTALL = "apt-get install chromium"
FLAGS = (
    *("--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--remote-debugging-pipe", "--window-size=1280,900"),
)
ANSWER_S = 120.0
END_S = 10.0
_READ, _WRITE = 3, 4
"""Where the browser reads commands and writes answers."""


def find_chromium() -> str | None:
    """The browser that is installed here, if any; the variable CHROMIUM names another."""
    return os.environ.get("CHROMIUM") or next((found for name in NAMES if (found := shutil.which(name))), None)


@contextlib.contextmanager
def open_chromium(program: str) -> Iterator[Chromium]:
    """A browser with an empty profile, while the context is open."""
    with tempfile.TemporaryDirectory(prefix="ludus-chromium-", ignore_cleanup_errors=True) as profile:
        browser = Chromium(program, Path(profile))
        try:
            yield browser
        finally:
            browser.close()


class Chromium:
    """A browser that runs."""

    def __init__(self, program: str, profile: Path) -> None:
        theirs, self._commands = _pipe()
        self._answers, back = _pipe()
        root = ("--no-sandbox",) if os.geteuid() == 0 else ()
        self.pid = os.posix_spawn(
            program,
            [program, *FLAGS, *root, f"--user-data-dir={profile}", "about:blank"],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs, _READ),
                (os.POSIX_SPAWN_DUP2, back, _WRITE),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            setsid=True,
        )
        os.close(theirs)
        os.close(back)
        self._number = 0
        self._received = bytearray()

    def open_page(self) -> Page:
        """A new tab."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, session)

    def resident_bytes(self, kind: str) -> int:
        """Resident memory of the largest process of a kind (`renderer` is that of a tab)."""
        told = self.ask("SystemInfo.getProcessInfo")["processInfo"]
        return max((_resident(int(each["id"])) for each in told if each["type"] == kind), default=0)

    def ask(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        """Give a command and wait for its answer; what else is said meanwhile is passed over.

        Raises:
            LudusError: it failed, or there was no answer in time.
        """
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        self._send(command | ({"sessionId": session} if session else {}))
        end = time.monotonic() + ANSWER_S
        while True:
            told = self._receive(end - time.monotonic())
            if told.get("id") == self._number:
                if "error" in told:
                    raise LudusError(f"Chromium refused {method}: {told['error'].get('message')}")
                result: dict[str, Any] = told["result"]
                return result

    def close(self) -> None:
        """End the browser and all that belongs to it."""
        with contextlib.suppress(LudusError, OSError):
            self._send({"id": 0, "method": "Browser.close"})
        end = time.monotonic() + END_S
        while os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > end:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.pid, signal.SIGKILL)
            time.sleep(0.02)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        os.close(self._commands)
        os.close(self._answers)

    def _send(self, command: dict[str, Any]) -> None:
        try:
            data = memoryview(json.dumps(command).encode() + b"\0")
            while data:
                data = data[os.write(self._commands, data) :]
        except OSError as error:
            raise LudusError(f"Chromium has ended: {error}") from error

    def _receive(self, seconds: float) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while (cut := self._received.find(b"\0")) < 0:
            if not select.select([self._answers], [], [], max(0.0, end - time.monotonic()))[0]:
                raise LudusError(f"Chromium did not answer within {ANSWER_S:g} s")
            chunk = os.read(self._answers, 1 << 20)
            if not chunk:
                raise LudusError("Chromium has ended")
            self._received += chunk
        told: dict[str, Any] = json.loads(self._received[:cut])
        del self._received[: cut + 1]
        return told


class Page:
    """One tab."""

    def __init__(self, browser: Chromium, session: str) -> None:
        self._browser = browser
        self._session = session
        self.ask("Page.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command to this tab."""
        return self._browser.ask(method, self._session, **parameters)

    def on_every_document(self, script: str) -> None:
        """Run a script in each document before its own."""
        self.ask("Page.addScriptToEvaluateOnNewDocument", source=script)

    def open(self, url: str) -> None:
        """Go to an address; does not wait for what is there."""
        self.ask("Page.navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page; of a promise what comes of it.

        Raises:
            LudusError: it failed.
        """
        told = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in told:
            details = told["exceptionDetails"]
            raise LudusError(f"in the page: {details.get('exception', {}).get('description') or details.get('text')}")
        return told["result"].get("value")

    def drag(self, begin: tuple[float, float], end: tuple[float, float]) -> None:
        """Press the mouse, move it and let it go."""
        for kind, (x, y), buttons in (("mousePressed", begin, 1), ("mouseMoved", end, 1), ("mouseReleased", end, 0)):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=buttons, clickCount=1)


def _pipe() -> tuple[int, int]:
    """Its ends, with numbers that are not in the way of those that the browser expects."""
    ends = os.pipe()
    high = tuple(fcntl(each, F_DUPFD_CLOEXEC, 20) for each in ends)
    for each in ends:
        os.close(each)
    return high[0], high[1]


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0
