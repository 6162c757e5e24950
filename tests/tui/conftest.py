"""What the tests of the dashboard share: recordings, and how to run the real app without a terminal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_textual_snapshot
from syrupy.extensions.single_file import WriteMode
from textual.pilot import Pilot

from ludus.monitor.message_queue import MessageQueue
from ludus.monitor.source import RecordedSource
from ludus.tui.app import Dashboard

RECORDINGS = Path(__file__).parent / "recordings"
NOON_S = 43_200.0

# The plugin was written for an older syrupy, which called these by other names.
pytest_textual_snapshot.SVGImageExtension.file_extension = "svg"
pytest_textual_snapshot.SVGImageExtension.write_mode = WriteMode.TEXT


@pytest.fixture(autouse=True)
def noon_in_greenwich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clocks in the log show the same everywhere."""
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("NO_COLOR", raising=False)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def recorded(name: str = "connect_four") -> Dashboard:
    """The real app on a recording, with a clock that stands still."""
    dashboard = Dashboard(RecordedSource(RECORDINGS / f"{name}.jsonl"))
    dashboard.message_queue = MessageQueue(clock=lambda: NOON_S)
    return dashboard


async def through(pilot: Pilot[str]) -> None:
    """Wait until all of a recording is on the screen."""
    source = pilot.app.source  # type: ignore[attr-defined]
    assert await asyncio.to_thread(source.is_through.wait, 10)
    await repaint(pilot)


async def repaint(pilot: Pilot[str]) -> None:
    """Take what has come, and paint it."""
    await pilot.pause()
    pilot.app.paint()  # type: ignore[attr-defined]
    await pilot.pause()


@asynccontextmanager
async def showing(name: str = "connect_four", size: tuple[int, int] = (80, 24)) -> AsyncIterator[Pilot[str]]:
    """The real app, with all of a recording on the screen."""
    async with recorded(name).run_test(size=size) as pilot:
        await through(pilot)
        yield pilot


async def until(condition: Callable[[], bool], pilot: Pilot[str], seconds: float = 10.0) -> None:
    """Go on painting until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come in time"
        await asyncio.sleep(0.02)
        await repaint(pilot)


def screen_text(pilot: Pilot[str]) -> str:
    """What is on the screen, as text."""
    strips = pilot.app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run an asynchronous test."""

    async def whole() -> None:
        await test()

    asyncio.run(whole())
