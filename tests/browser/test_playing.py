"""A person plays a game to its end in the browser: by click, by key, and in words; and asks for a match."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.browser.conftest import Web, settle
from tests.browser.test_every_page import check_looks

pytestmark = pytest.mark.browser
Open = Callable[..., Any]
MOST_MOVES = 60


def begin(page: Any) -> None:
    page.get_by_role("button", name="New game").click()
    page.wait_for_url(re.compile("table="))
    page.get_by_role("region", name="The game").wait_for()


def your_move_or_the_end(page: Any) -> bool:
    """Wait until it is our turn; False when the game is over."""
    said = page.locator("section[aria-label='The game'] > p[aria-live]")
    page.wait_for_function(
        """() => { const said = document.querySelector("section[aria-label='The game'] > p[aria-live]");
            return said && /Your move|Returns/.test(said.textContent) && !/is thinking/.test(document.body.textContent); }"""
    )
    return "Returns" not in said.inner_text()


def test_a_board_game_is_played_to_its_end_by_click_and_by_key(open_page: Open, web: Web) -> None:
    page = open_page(web.of("board", "play"))
    begin(page)
    check_looks(page)
    for turn in range(MOST_MOVES):
        if not your_move_or_the_end(page):
            break
        target = page.locator("svg.board .target").first
        if turn % 2:
            target.focus()
            page.keyboard.press("Enter")
        else:
            target.click()
        page.wait_for_function(
            "count => document.querySelectorAll('section[aria-label=\"The game\"] ol li').length > count", arg=2 * turn
        )
    assert not your_move_or_the_end(page)
    moves = page.locator("section[aria-label='The game'] ol li").count()
    assert page.locator("svg.board .stone").count() == moves >= 7
    page.reload()
    settle(page)
    page.get_by_role("region", name="The game").wait_for()
    assert page.locator("section[aria-label='The game'] ol li").count() == moves, "a page that is loaded anew goes on"


def test_a_game_of_words_is_played_by_text(open_page: Open, web: Web) -> None:
    page = open_page(web.of("words", "play"))
    begin(page)
    assert your_move_or_the_end(page)
    field = page.get_by_label("Your move")
    field.fill("nonsense <b>bold</b>")
    page.keyboard.press("Enter")
    page.get_by_text("no legal move").wait_for()
    assert page.locator("section[aria-label='The game'] b").count() == 0
    check_looks(page)
    for _ in range(MOST_MOVES):
        if not your_move_or_the_end(page):
            break
        count = page.locator("section[aria-label='The game'] ol li").count()
        page.get_by_label("Your move").fill(
            page.get_by_role("group", name="Legal moves").locator("button").first.inner_text()
        )
        page.keyboard.press("Enter")
        page.wait_for_function(
            "count => document.querySelectorAll('section[aria-label=\"The game\"] ol li').length > count", arg=count
        )
    assert "Returns" in page.locator("section[aria-label='The game'] > p[aria-live]").inner_text()


def test_a_match_is_asked_for_at_a_cell(open_page: Open, web: Web) -> None:
    page = open_page(web.of("board", "league"))
    page.locator("td.unknown a", has_text="match").first.click()
    page.wait_for_url(re.compile("row=.*column="))
    panel = page.get_by_role("region", name="Match", exact=True)
    check_looks(page)
    panel.get_by_label("Games").fill("20")
    panel.get_by_role("button", name="Play 20 games").click()
    page.wait_for_url(re.compile("match="))
    panel.get_by_text(re.compile(r"scores .* against .*a draw counts half")).wait_for()
    assert panel.locator("tbody tr").last.locator("td").first.inner_text() == "20"
    said = panel.locator("p", has_text="a draw counts half").inner_text()
    check_looks(page)
    page.reload()
    settle(page)
    panel.get_by_text(said[:40]).wait_for()
    panel.get_by_role("link", name="Close").click()
    page.wait_for_url(re.compile("/league$"))
