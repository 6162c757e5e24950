"""Every page on every kind of run: it opens, breaks no rule of WCAG 2.2 AA in light and dark, and fits its window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.browser.axe import violations
from tests.browser.conftest import NARROW, WIDE, Web, settle
from tests.browser.real_runs import RUNS

pytestmark = pytest.mark.browser

PAGES = ("", "curves", "league", "episodes", "tasks", "refused", "play", "log", "config", "commands")
RUN_IDS = tuple("tasks/3_grpo" if name == "tasks" else name for name in RUNS)

Open = Callable[..., Any]


def check_looks(page: Any) -> None:
    """By axe, light and dark, wide and narrow; nothing is wider than the window."""
    wrong: list[str] = []
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            settle(page)
            wrong += [f"{scheme} at {size['width']}: {each}" for each in violations(page)]
        widths = page.evaluate("() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        if widths[0] > widths[1]:
            wrong.append(f"{widths[0]} pixels wide at {size['width']}")
    assert not wrong, "\n".join([page.url, *wrong])


@pytest.mark.parametrize("run", RUN_IDS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_a_run_opens_and_can_be_read_by_all(open_page: Open, web: Web, run: str, name: str) -> None:
    page = open_page(web.of(run, name))
    assert page.locator("nav.tabs a[aria-current=page]").count() == 1
    assert page.locator(".notice.error").count() == 0
    check_looks(page)


@pytest.mark.parametrize("path", ["/", "/?label=plays&sort=seed", "/compare", "/compare?run=board&run=words&run=psro"])
def test_lists_and_comparisons_can_be_read_by_all(open_page: Open, web: Web, path: str) -> None:
    page = open_page(web.origin + path)
    assert page.locator("h1").count() == 1
    check_looks(page)


@pytest.mark.parametrize("run", ["board", "words", "tasks/3_grpo"])
def test_one_episode_can_be_read_by_all(open_page: Open, web: Web, run: str) -> None:
    rows = web.get(f"runs/{run.replace('/', '%2F')}/episodes")["rows"]
    check_looks(open_page(web.of(run, f"episodes/{rows[0]['id']}")))
