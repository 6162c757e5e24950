"""The main pages as pictures: light and dark, at 1280 and 390 pixels. `make web-pictures` keeps them below `build/`, and
puts those that the documentation shows into `docs/pictures`.

To add a page: a row of `SHOWN`; to show a picture in the documentation: its name in `IN_DOCS`.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.browser.conftest import NARROW, WIDE, Web, settle
from tests.browser.test_what_is_shown import traced

pytestmark = pytest.mark.browser
Open = Callable[..., Any]

DOCS = Path(__file__).parents[2] / "docs" / "pictures"
MOST_BYTES = 150_000
MOST_COLOURS = 128
TALLEST = 4000
"""Pixels of a picture that is looked at."""


def one_game(web: Web) -> str:
    """A recorded game of the board run, in its middle."""
    return f"run/board/episodes/{web.get('runs/board/episodes')['rows'][0]['id']}?move=9"


def one_reply(web: Web) -> str:
    """A sequence whose advantages are recorded."""
    id, sequence, _ = traced(web, "words")
    return f"run/words/episodes/{id}?sequence={sequence}&colour=advantage"


SHOWN: dict[str, Callable[[Web], str]] = {
    "runs": lambda _: "",
    "compare": lambda _: "compare?run=board&run=words&run=psro",
    "run": lambda _: "run/board",
    "curves": lambda _: "run/board/curves",
    "league": lambda _: "run/board/league",
    "population": lambda _: "run/psro/league",
    "league_of_agents": lambda _: "run/league/league",
    "episodes": lambda _: "run/board/episodes",
    "game": one_game,
    "tokens": one_reply,
    "tasks": lambda _: f"run/{quote('tasks/3_grpo', safe='')}/tasks",
    "refused": lambda _: "run/words/refused",
    "play": lambda _: "run/board/play",
    "log": lambda _: "run/board/log",
    "config": lambda _: "run/board/config",
    "commands": lambda _: "run/board/commands",
}
IN_DOCS = {
    "web-run": ("run", 1280, "light", 1130),
    "web-league": ("league", 1280, "dark", 900),
    "web-game": ("game", 1280, "light", 900),
    "web-tokens": ("tokens", 1280, "dark", 520),
    "web-phone": ("run", 390, "dark", 844),
}
"""Page, width, scheme and height of each picture of the documentation."""
PARTS = {"web-tokens": "section[aria-label=Sequences]"}
"""Where a picture begins that is not of the page's head."""


@pytest.mark.parametrize("name", SHOWN)
def test_a_page_has_its_picture(open_page: Open, web: Web, tmp_path: Path, name: str) -> None:
    folder = Path(os.environ.get("LUDUS_WEB_PICTURES") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    page = open_page(f"{web.origin}/{SHOWN[name](web)}")
    page.evaluate("() => document.querySelector('.folder bdi').textContent = 'runs'")  # no folder of this machine
    if name == "run":  # what the run has said comes after the rest
        page.get_by_role("heading", name="The loop").wait_for()
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            settle(page)
            page.wait_for_load_state("networkidle")
            height = min(TALLEST, page.evaluate("() => document.documentElement.scrollHeight"))
            clip = {"x": 0, "y": 0, "width": size["width"], "height": height}
            picture = page.screenshot(full_page=True, clip=clip)
            (folder / f"{name}-{size['width']}-{scheme}.png").write_bytes(picture)
            for title, (shown, width, colours, most) in IN_DOCS.items():
                if (shown, width, colours) == (name, size["width"], scheme):
                    part = page.locator(PARTS[title]).bounding_box()["y"] if title in PARTS else 0
                    seen = {**clip, "y": part, "height": min(most, height - part)}
                    small = shrunk(page.screenshot(full_page=True, clip=seen))
                    assert len(small) < MOST_BYTES, title
                    ((DOCS if os.environ.get("LUDUS_WEB_PICTURES") else folder) / f"{title}.png").write_bytes(small)


def shrunk(picture: bytes) -> bytes:
    """The same in few colours."""
    from PIL import Image

    out = io.BytesIO()
    colours = Image.open(io.BytesIO(picture)).convert("RGB").quantize(MOST_COLOURS, dither=Image.Dither.NONE)
    colours.save(out, "PNG", optimize=True)
    return out.getvalue()
