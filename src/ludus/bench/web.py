"""`ludus bench web`: what people wait for in the browser, what it costs the run, and what memory does.

Every round has a server that has just started and a browser with an empty profile; what is opened first is timed. The
files were written a moment before, so the disk is not in it. Without Chromium the server's answers alone are timed.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from ludus.bench.chromium import INSTALL, find_chromium, open_chromium
from ludus.bench.measuring import Figure, processes_cpu_s
from ludus.bench.web_live import bench_cost, bench_memory
from ludus.bench.web_pages import CURVE_SHOWN, TimedPage
from ludus.bench.web_runs import Sizes, episode_id, make_runs
from ludus.bench.web_server import web_server
from ludus.extras import need_packages

MINUTES = 2.0
RUN_SHOWN = "document.querySelector('dl.facts .state')"
ROWS_SHOWN = "document.querySelectorAll('tbody tr').length >= {}"
CLICK_FIRST = "document.querySelector('tbody tr a').click()"
GAME_SHOWN = "document.querySelector('section[aria-label=Sequences] .tokens')"
TOKENS_SHOWN = "document.querySelector('.tokens .token')"
SERVER_OPENS = "server, 10,000 episodes: open one"
CHOOSE_S = 2.0
"""What a person takes to choose from a list; what is opened is read ahead meanwhile."""
SERVER = {
    "server, a finished run": ("demo", 1000.0),
    "server, a million points: first curve": ("points/series?name=train/loss&buckets=500", 1000.0),
    "server, a million points: zoom": ("points/series?name=train/loss&buckets=500&from=2e7&to=3e7", 100.0),
    "server, 10,000 episodes: list": ("games/episodes?limit=100", 500.0),
    SERVER_OPENS: (f"games/episodes/{episode_id(5000)}", 200.0),
    "server, 32,000 tokens": (f"words/episodes/{episode_id(0)}/tokens", 500.0),
}
"""What is asked for, below `/api/runs/`, and the milliseconds that it may take."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A value of one round, and the CPU-seconds that went into it."""

    value: float
    cpu_s: float | None = None


def bench_web(*, rounds: int, seconds: float, minutes: float = MINUTES) -> list[Figure]:
    """The table of bounds of the page; `minutes` are those of live news, alone where `rounds` is 0."""
    need_packages("ludus bench web", "pyspiel", "starlette", "uvicorn")
    chromium = find_chromium()
    if chromium is None:
        print(f"there is no Chromium here ({INSTALL}); the server alone is measured", file=sys.stderr)
    taken: dict[str, list[Taken]] = {}
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        if rounds:
            make_runs(Path(folder), Sizes())
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
            found = [*_server_times(Path(folder)), *(_page_times(Path(folder), chromium) if chromium else ())]
            for name, each in found:
                taken.setdefault(name, []).append(each)
        figures = [_figure(name, each) for name, each in taken.items()]
        figures += bench_cost(Path(folder), chromium, rounds=rounds, seconds=seconds) if rounds else []
        return figures + bench_memory(Path(folder), chromium, minutes=minutes)


def _server_times(folder: Path) -> Iterator[tuple[str, Taken]]:
    """Milliseconds of answers over HTTP, the first time that they are asked for."""
    with web_server(folder / "many") as server:
        yield "server, 500 runs listed", _taken(lambda: server.ask("/api/runs"))
    with web_server(folder / "one") as server:
        for name, (path, _) in SERVER.items():
            if name == SERVER_OPENS:
                time.sleep(CHOOSE_S)
            yield name, _taken(lambda path=path: server.ask("/api/runs/" + path))  # type: ignore[misc]


def _page_times(folder: Path, chromium: str) -> Iterator[tuple[str, Taken]]:
    """The same as a person sees it."""
    with web_server(folder / "many") as server, open_chromium(chromium) as browser:
        page = TimedPage(browser, server.origin)
        yield "500 runs listed", _taken(lambda: page.open("/", ROWS_SHOWN.format(500))["shown"])
    with web_server(folder / "one") as server, open_chromium(chromium) as browser:
        page = TimedPage(browser, server.origin)
        opened = page.open("/run/demo", RUN_SHOWN)
        yield "finished run: first paint", Taken(opened["first_paint"])
        yield "finished run: shown", Taken(opened["shown"])
        curves, games = "/run/points/curves?m=train/loss", "/run/games/episodes"
        yield "a million points: first curve", _taken(lambda: page.open(curves, CURVE_SHOWN)["shown"])
        yield "a million points: zoom", _taken(page.zoom)
        yield "10,000 episodes: list", _taken(lambda: page.open(games, ROWS_SHOWN.format(100))["shown"])
        yield "10,000 episodes: scroll", _taken(lambda: page.scroll()["frames_per_s"])
        yield "10,000 episodes: open one", _taken(lambda: page.act(CLICK_FIRST, GAME_SHOWN))
        yield "32,000 tokens", _taken(lambda: page.open(f"/run/words/episodes/{episode_id(0)}", TOKENS_SHOWN)["shown"])


def _taken(measure: Callable[[], float]) -> Taken:
    """What is measured, and the CPU-seconds of server and browser meanwhile."""
    before = processes_cpu_s(os.getpid())
    value = measure()
    return Taken(value, processes_cpu_s(os.getpid()) - before)


MOST_MS = {
    "500 runs listed": 1000.0,
    "finished run: first paint": 1000.0,
    "finished run: shown": 1000.0,
    "a million points: first curve": 1000.0,
    "a million points: zoom": 100.0,
    "10,000 episodes: list": 500.0,
    "10,000 episodes: open one": 200.0,
    "32,000 tokens": 500.0,
    "server, 500 runs listed": 1000.0,
    **{name: most for name, (_, most) in SERVER.items()},
}


def _figure(name: str, taken: list[Taken]) -> Figure:
    value, used = median(each.value for each in taken), [each.cpu_s for each in taken if each.cpu_s is not None]
    cpu_s = median(used) if used else None
    if name.endswith("scroll"):
        return Figure.bounded(f"web, {name}", value, "frames per second", least=50.0, cpu_s=cpu_s)
    return Figure.bounded(f"web, {name}", value, "ms", most=MOST_MS[name], cpu_s=cpu_s)
