"""Makes the pictures of docs/tui.md from a real run: `make pictures`. Takes about two minutes.

A daemon plays and trains Connect Four, the real dashboard (without a terminal) watches it, and what it shows at the
moment when everything has something to show becomes PNG files beside this one.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import matplotlib
import resvg_py
from textual.pilot import Pilot

from ludus.daemon.messages import StartTraining, Subscribe
from ludus.monitor.live_sources import WANTED, ChildSource
from ludus.tui.app import Dashboard
from ludus.tui.panes import PANES

HERE = Path(__file__).parent
CONFIG = HERE.parents[1] / "examples" / "connect_four.yaml"
FONTS = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
FONT = "DejaVu Sans Mono"
WIDTHS_PX = {80: 880, 120: 1280, 200: 1900}
PATIENCE_S = 1800.0


def main() -> None:
    """Run, watch, draw."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(picture_run(Path(folder)))


async def picture_run(folder: Path) -> None:
    """One run, one dashboard, all pictures."""
    start = StartTraining(config=str(CONFIG), overrides=("train.steps=6000000",), run_dir=str(folder / "connect_four"))
    source = ChildSource([sys.executable, "-m", "ludus.cli.app", "daemon"])
    dashboard = Dashboard(source, first=[Subscribe(types=WANTED), start])
    async with dashboard.run_test(size=(120, 40)) as pilot:
        await until_there_is_something_to_see(dashboard)
        for size in ((120, 40), (200, 60)):
            await draw(pilot, f"tui-{size[0]}x{size[1]}", size)
        for number, pane in enumerate(PANES, start=1):
            await draw(pilot, f"tui-{pane.name}", (80, 24), str(number))
        await draw(pilot, "tui-help", (80, 24), "question_mark")
        await pilot.press("escape")
        await draw(pilot, "tui-palette", (80, 24), "ctrl+p")
        await pilot.press("escape")
        await draw(pilot, "tui-confirm", (80, 24), "1", "x")
        await asyncio.to_thread(source.close)


async def until_there_is_something_to_see(dashboard: Dashboard) -> None:
    """A ladder, an episode and curves."""
    view, deadline = dashboard.view, time.monotonic() + PATIENCE_S
    while (
        view.league is None
        or len(view.league.members) < 8
        or view.episode is None
        or len(view.curve("train/loss")) < 12
    ):
        if time.monotonic() > deadline or view.failure:
            raise SystemExit(f"nothing to draw: {view.failure or view.status.stage}")
        await asyncio.sleep(0.5)


async def draw(pilot: Pilot[Any], name: str, size: tuple[int, int], *keys: str) -> None:
    """One picture, after some keys."""
    await pilot.resize_terminal(*size)
    await pilot.press(*keys)
    pilot.app.clear_notifications()
    await pilot.pause(0.5)
    svg = re.sub(r"@font-face \{.*?\}", "", pilot.app.export_screenshot(title="ludus tui"), flags=re.DOTALL)
    png = resvg_py.svg_to_bytes(
        svg_string=svg.replace("Fira Code", FONT).replace("🔎", "  "),  # the font has no such sign
        width=WIDTHS_PX[size[0]],
        font_files=[str(FONTS / "DejaVuSansMono.ttf"), str(FONTS / "DejaVuSansMono-Bold.ttf")],
        monospace_family=FONT,
        sans_serif_family=FONT,
        skip_system_fonts=True,
    )
    (HERE / f"{name}.png").write_bytes(bytes(png))
    print(f"{name}.png")


if __name__ == "__main__":
    main()
