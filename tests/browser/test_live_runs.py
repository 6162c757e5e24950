"""A run that is watched while it goes on, is killed and is resumed; and every command of `--control`, with its reply."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.browser.conftest import Web, settle
from tests.browser.real_runs import EXAMPLES, LUDUS, ludus
from tests.browser.test_every_page import check_looks

pytestmark = pytest.mark.browser
Open = Callable[..., Any]
Serve = Callable[..., Web]

LONG = (
    "kuhn_poker.yaml",
    "train.steps=100000000",
    "explore.games_in_flight=64",
    "evaluate.every=null",
    "evaluate.at_start=false",
)


@contextmanager
def running(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run that goes on until somebody ends it."""
    example, *values = LONG
    process = subprocess.Popen(
        [*LUDUS, "run", str(EXAMPLES / example), "--quiet", "--run-dir", str(folder), *values],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def steps(page: Any) -> int:
    """How far the run is, as the page says."""
    found = re.search(r"progress\s+([\d,]+) of", page.get_by_role("region", name="Facts").inner_text())
    assert found is not None
    return int(found[1].replace(",", ""))


GOES_ON = """before => { const facts = document.querySelector('section[aria-label="Facts"]');
    const found = facts && /progress\\s+([\\d,]+) of/.exec(facts.innerText);
    return found && Number(found[1].replaceAll(',', '')) > before; }"""


def test_a_run_is_watched_while_it_is_killed_and_resumed(open_page: Open, serve: Serve, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    page = open_page(serve(folder).origin)
    page.get_by_text("No runs here yet").wait_for()
    with running(folder / "kuhn") as process:
        page.get_by_role("link", name="kuhn").click()
        page.get_by_text(re.compile(r"heard \d+:\d\d ago")).wait_for()
        page.wait_for_function(GOES_ON, arg=0)
        before = steps(page)
        page.wait_for_function(GOES_ON, arg=before)
        assert page.get_by_label("load of train").count() == 1
        check_looks(page)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        page.get_by_text(re.compile("killed|ended without a word|nobody runs it")).first.wait_for()
        left = steps(page)
    with running(folder / "kuhn"):
        page.get_by_text(re.compile(r"heard \d+:\d\d ago")).wait_for()
        page.wait_for_function(GOES_ON, arg=left)


def reply(page: Any, command: str) -> str:
    """What the page says that the run answered last."""
    newest = page.locator("ul[aria-live] > li").first
    newest.filter(has=page.locator("b", has_text=re.compile(f"^{command}$"))).wait_for()
    return str(newest.inner_text())


def test_every_command_is_given_and_its_reply_is_shown(open_page: Open, serve: Serve, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    with running(folder / "kuhn") as process:
        web = serve(folder, "--control")
        page = open_page(web.url)
        assert "token" not in page.url
        page.get_by_role("link", name="kuhn").click()
        page.get_by_text(re.compile(r"heard \d+:\d\d ago")).wait_for()
        page.wait_for_function(GOES_ON, arg=0)
        page.get_by_role("link", name="Commands").click()
        page.get_by_text("Now: training").wait_for()
        for title, command in (
            ("Pause", "pause"),
            ("Resume", "resume"),
            ("Checkpoint", "checkpoint"),
            ("Export", "export"),
        ):
            page.get_by_role("button", name=title, exact=True).click()
            assert "✓" in reply(page, command), reply(page, command)
        page.get_by_role("button", name="Train now").click()
        assert re.search("✓|✗ refused: .", reply(page, "train_now")), "it says why where there is nothing to wait for"
        page.get_by_label("Key").fill("train.seed")
        page.get_by_label("Value").fill("7")
        page.get_by_role("button", name="Set", exact=True).click()
        assert "✗ refused: " in reply(page, "set")
        page.get_by_label("Key").fill("train.steps")
        page.get_by_label("Value").fill("99999999")
        page.get_by_role("button", name="Set", exact=True).click()
        page.locator("ul[aria-live] > li").first.filter(has_text="✓").wait_for()
        check_looks(page)
        page.get_by_role("button", name="Stop…").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Leave it going").click()
        assert process.poll() is None
        page.get_by_role("button", name="Stop…").focus()
        page.keyboard.press("Enter")
        dialog.wait_for()
        check_looks(page)
        page.keyboard.press("Escape")
        dialog.wait_for(state="hidden")
        page.get_by_role("button", name="Stop…").click()
        dialog.get_by_role("button", name="Stop the run").click()
        assert "✓" in reply(page, "stop")
        process.wait(timeout=120)
        assert json.loads(ludus("status", folder / "kuhn", "--json").stdout)["stage"] == "STOPPED"
        exports = [path for path in (folder / "kuhn").rglob("*.safetensors") if "export" in str(path)]
        assert exports, "the export lies below the run"


def test_another_browser_may_not_give_commands(open_page: Open, serve: Serve, runs: Path) -> None:
    web = serve(runs, "--control")
    open_page(web.url)
    stranger = open_page(web.of("board", "commands"))
    assert "Another browser has the right" in stranger.locator("#content").inner_text()
    assert stranger.get_by_role("button", name="Pause").count() == 0


def test_a_server_that_ends_is_noticed_and_its_age_is_told(
    open_page: Open, complaints: list[Any], serve: Serve, runs: Path
) -> None:
    web = serve(runs)
    page = open_page(web.of("board"))
    complaints[0].expected = ("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET")
    page.get_by_role("heading", name="The loop").wait_for()
    web.process.terminate()
    web.process.wait()
    page.get_by_text(re.compile(r"What is shown is \d+:\d\d old")).wait_for()
    assert page.get_by_role("heading", name="The loop").count() == 1
    settle(page)
