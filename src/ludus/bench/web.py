"""`ludus bench web`: what people wait for in the browser, what it costs the run, and what memory does.

Every round has a server that has just started and a browser with an empty profile; what is opened first is timed. The
files were written a moment before, so the disk is not in it. Without Chromium the server's answers alone are timed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from ludus.bench.chromium import INSTALL, find_chromium, open_chromium
from ludus.bench.measuring import Figure
from ludus.bench.web_live import bench_cost, bench_memory
from ludus.bench.web_pages import CURVE_SHOWN, TimedPage
from ludus.bench.web_runs import Sizes, episode_id, make_runs
from ludus.bench.web_server import web_server
from ludus.extras import need_packages

MINUTES = 2.0
RUN_SHOWN = "document.querySelector('dl.facts .state')"
ROWS_SHOWN = "document.querySelectorAll('tbody tr').length >= {}"
GAME_SHOWN = "document.querySelector('section[aria-label=Sequences] .tokens')"
TOKENS_SHOWN = "document.querySelector('.tokens .token')"
SERVER = {
    "server, a finished run": ("demo", 1000.0),
    "server, a million points: first curve": ("points/series?name=train/loss&buckets=500", 1000.0),
    "server, a million points: zoom": ("points/series?name=train/loss&buckets=500&from=2e7&to=3e7", 100.0),
    "server, 10,000 episodes: list": ("games/episodes?limit=100", 500.0),
    "server, 10,000 episodes: open one": (f"games/episodes/{episode_id(5000)}", 200.0),
    "server, 32,000 tokens": (f"words/episodes/{episode_id(0)}/tokens", 500.0),
}
"""What is asked for, below `/api/runs/`, and the milliseconds that it may take."""


def bench_web(*, rounds: int, seconds: float, minutes: float = MINUTES) -> list[Figure]:
    """The table of bounds of the page; `minutes` are those of live news."""
    need_packages("ludus bench web", "pyspiel", "starlette", "uvicorn")
    chromium = find_chromium()
    if chromium is None:
        print(f"there is no Chromium here ({INSTALL}); the server alone is measured", file=sys.stderr)
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        make_runs(Path(folder), Sizes())
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
            found = [*_server_times(Path(folder)), *(_page_times(Path(folder), chromium) if chromium else ())]
            for name, value in found:
                times.setdefault(name, []).append(value)
        figures = [_figure(name, median(values)) for name, values in times.items()]
        figures += bench_cost(Path(folder), chromium, rounds=rounds, seconds=seconds)
        return figures + bench_memory(Path(folder), chromium, minutes=minutes)


def _server_times(folder: Path) -> Iterator[tuple[str, float]]:
    """Milliseconds of answers over HTTP, the first time that they are asked for."""
    with web_server(folder / "many") as server:
        yield "server, 500 runs listed", server.ask("/api/runs")
    with web_server(folder / "one") as server:
        for name, (path, _) in SERVER.items():
            yield name, server.ask("/api/runs/" + path)


def _page_times(folder: Path, chromium: str) -> Iterator[tuple[str, float]]:
    """The same as a person sees it."""
    with web_server(folder / "many") as server, open_chromium(chromium) as browser:
        yield "500 runs listed", TimedPage(browser, server.origin).open("/", ROWS_SHOWN.format(500))["shown"]
    with web_server(folder / "one") as server, open_chromium(chromium) as browser:
        page = TimedPage(browser, server.origin)
        opened = page.open("/run/demo", RUN_SHOWN)
        yield "finished run: first paint", opened["first_paint"]
        yield "finished run: shown", opened["shown"]
        yield "a million points: first curve", page.open("/run/points/curves?m=train/loss", CURVE_SHOWN)["shown"]
        yield "a million points: zoom", page.zoom()
        yield "10,000 episodes: list", page.open("/run/games/episodes", ROWS_SHOWN.format(100))["shown"]
        yield "10,000 episodes: scroll", page.scroll()["frames_per_s"]
        yield "10,000 episodes: open one", page.act("document.querySelector('tbody tr a').click()", GAME_SHOWN)
        yield "32,000 tokens", page.open(f"/run/words/episodes/{episode_id(0)}", TOKENS_SHOWN)["shown"]


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


def _figure(name: str, value: float) -> Figure:
    if name.endswith("scroll"):
        return Figure.bounded(f"web, {name}", value, "frames per second", least=50.0)
    return Figure.bounded(f"web, {name}", value, "ms", most=MOST_MS[name])
