"""A person without a mouse finds everything, and sees where they are."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.browser.conftest import Web, settle

pytestmark = pytest.mark.browser
Open = Callable[..., Any]

MOST_TABS = 400
FOCUSED = "() => { const at = document.activeElement; return (at.getAttribute('aria-label') || at.innerText || at.value || '').trim(); }"


def tab_to(page: Any, name: str) -> None:
    """Press Tab until the focus is there; it must be seen."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if page.evaluate(FOCUSED) == name:
            outline = page.evaluate(
                "() => { const s = getComputedStyle(document.activeElement); return s.outlineStyle + s.stroke; }"
            )
            assert not outline.startswith("nonenone"), f"nobody sees the focus on {name}"
            return
    raise AssertionError(f"Tab does not lead to {name!r}")


def test_from_the_list_to_a_move_without_a_mouse(open_page: Open, web: Web) -> None:
    page = open_page(web.origin)
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED) == "Skip to the content"
    tab_to(page, "compare board")
    page.keyboard.press("Space")
    page.wait_for_url(re.compile("run=board"))
    tab_to(page, "board")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/run/board"))
    tab_to(page, "Episodes")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/run/board/episodes"))
    settle(page)
    id = web.get("runs/board/episodes")["rows"][0]["id"]
    tab_to(page, id[:12])
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(id))
    settle(page)
    tab_to(page, "Back")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("move="))
    page.keyboard.press("Home")
    page.wait_for_url(re.compile("move=0"))
    page.get_by_text("The beginning.").wait_for()
    page.go_back()
    page.wait_for_url(re.compile("/run/board/episodes$"))


@pytest.mark.parametrize("name", ["", "curves", "league", "episodes", "play", "config"])
def test_tab_comes_by_everything_that_can_be_used(open_page: Open, web: Web, name: str) -> None:
    page = open_page(web.of("board", name))
    missed = page.evaluate(
        """() => [...document.querySelectorAll('a[href], button, input, select, summary, [role=button]')]
            .filter(each => each.checkVisibility() && !each.disabled && each.tabIndex < 0).map(each => each.outerHTML)"""
    )
    assert missed == []
    scrolls = page.evaluate(
        """() => [...document.querySelectorAll('#content *')].filter(each => each.tabIndex < 0 && !each.querySelector('a, button')
            && ['auto', 'scroll'].includes(getComputedStyle(each).overflowY) && each.scrollHeight > each.clientHeight + 1).map(each => each.className)"""
    )
    assert scrolls == [], "what scrolls can be scrolled by key"


def test_nothing_moves_where_the_system_asks_for_it(open_page: Open, web: Web) -> None:
    page = open_page(web.of("board"), reduced_motion="reduce")
    moving = "() => [...document.querySelectorAll('*')].filter(each => { const s = getComputedStyle(each); return s.animationName !== 'none' || parseFloat(s.transitionDuration) > 0; }).length"
    assert page.evaluate(moving) == 0
    assert page.evaluate("() => document.getAnimations().length") == 0
