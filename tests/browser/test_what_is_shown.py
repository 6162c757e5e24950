"""What a page shows is what the run's files hold, and its address restores it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.browser.conftest import Web, settle
from tests.browser.real_runs import ludus
from tests.browser.test_every_page import check_looks

pytestmark = pytest.mark.browser
Open = Callable[..., Any]


def rows_of(page: Any, caption: str) -> list[list[str]]:
    """The cells of a table, as they are read."""
    rows = page.get_by_role("region", name=caption, exact=True).locator("tbody tr")
    found = rows.evaluate_all("rows => rows.map(row => [...row.children].map(cell => cell.innerText.trim()))")
    return [list(row) for row in found]


def loaded_anew(page: Any) -> Any:
    """What somebody sees to whom this address was sent."""
    page.reload()
    settle(page)
    return page


def test_runs_are_those_of_ludus_runs_filtered_sorted_and_marked(open_page: Open, web: Web, runs: Path) -> None:
    told = json.loads(ludus("runs", runs, "--json").stdout)["runs"]
    page = open_page(web.origin)
    shown = {row[1]: row for row in rows_of(page, "Runs")}
    assert set(shown) == {"board", "words", "tasks", "psro", "league"}
    assert len(told) == len(shown)
    assert shown["psro"][8] == "6 of 6 generations"
    assert "nash_conv" in shown["psro"][9]
    page.get_by_role("searchbox").fill("pgx -league")
    page.wait_for_url(re.compile("filter=pgx"))
    page.get_by_text("1 run", exact=True).wait_for()
    assert [row[1] for row in rows_of(loaded_anew(page), "Runs")] == ["board"]
    page.get_by_role("searchbox").fill("")
    page.get_by_text("5 runs").wait_for()
    page.get_by_role("button", name="run", exact=True).click()
    page.wait_for_url(re.compile("sort=id"))
    settle(page)
    assert [row[1] for row in rows_of(loaded_anew(page), "Runs")] == sorted(shown, reverse=True)
    page.get_by_label("compare board").check()
    page.get_by_label("compare words").check()
    page.get_by_role("button", name="Compare 2").click()
    page.get_by_role("heading", name="Runs, results, and keys that differ").wait_for()
    told = web.get("compare?run=board&run=words")
    keys = page.locator("tbody th.code").all_inner_texts()
    assert keys == [row["key"] for row in told["config"]]
    assert "seed" not in keys, "only what differs"


def test_a_finished_run_stands_as_ludus_status_says(open_page: Open, web: Web, runs: Path) -> None:
    status = json.loads(ludus("status", runs / "board", "--json").stdout)
    page = open_page(web.of("board"))
    page.get_by_role("heading", name="The loop").wait_for()
    facts = page.get_by_role("region", name="Facts").inner_text()
    assert f"{status['steps']:,} of {status['total_steps']:,}" in facts
    assert f"{status['update']:,} updates" in facts
    assert "nobody runs it now" in page.locator("#content").inner_text()
    points = web.get("runs/board/evaluations")["rows"]
    for row in points:
        assert page.locator("figure", has_text=row["name"]).count() == 1


def test_every_drawing_has_a_table_with_its_numbers(open_page: Open, web: Web) -> None:
    page = open_page(web.of("board", "curves", "m=train%2Floss"))
    figure = page.locator("figure.chart")
    figure.locator("summary").click()
    figure.locator("tbody tr").first.wait_for()
    told = web.get("runs/board/series?name=train%2Floss&buckets=500")["series"]["train/loss"]
    shown = rows_of(page, "train/loss as a table")
    assert len(shown) == len(told["x"])
    for row, step, mean in ((shown[0], told["x"][0], told["mean"][0]), (shown[-1], told["x"][-1], told["mean"][-1])):
        assert float(row[1].replace(",", "")) == step
        assert float(row[2].replace(",", "")) == pytest.approx(mean, rel=1e-3)
    for run, name in (("board", ""), ("psro", "league"), ("board", "curves")):
        page.goto(web.of(run, name))
        settle(page)
        page.locator("figure.chart, svg[role=img]").first.wait_for()
        assert page.locator("figure.chart").count() == page.locator("figure.chart details").count()
        for drawing in page.locator("svg[role=img]").all():
            assert "the table below" in (drawing.get_attribute("aria-label") or "")
            assert drawing.evaluate("node => Boolean(node.parentElement.querySelector('table, details'))")


def test_a_window_of_a_curve_is_in_the_address(open_page: Open, web: Web) -> None:
    page = open_page(web.of("board", "curves", "m=train%2Floss"))
    plot = page.locator("figure.chart .u-over")
    box = plot.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 40, steps=4)
    page.mouse.up()
    page.wait_for_url(re.compile("from="))
    loaded_anew(page).locator("figure.chart").get_by_role("button", name="Whole run").click()
    page.wait_for_url(re.compile(r"curves\?m=train%2Floss$"))
    page.get_by_label("Along").select_option("time")
    page.wait_for_url(re.compile("x=time"))
    assert loaded_anew(page).get_by_label("Along").input_value() == "time"


def test_the_ladder_is_that_of_ludus_league_and_a_cell_leads_to_its_games(
    open_page: Open, web: Web, runs: Path
) -> None:
    told = json.loads(ludus("league", runs / "board", "--json").stdout)
    page = open_page(web.of("board", "league"))
    shown = [row for row in rows_of(page, "Ladder") if row[0] != "–"]
    assert shown, told.keys()
    league = web.get("runs/board/league")
    assert [row[1] for row in shown] == [row["policy"] for row in league["ladder"] if row.get("rank")]
    payoffs = league["payoffs"]
    unknown = sum(value is None and i != j for i, row in enumerate(payoffs["mean"]) for j, value in enumerate(row))
    assert page.locator("td.unknown", has_text="unknown").count() == unknown > 0
    cell = page.locator("td.cell a").first
    name = re.search(r"of (\S+) against (\S+):", cell.inner_text().replace("\n", " "))
    assert name is not None
    cell.click()
    page.wait_for_url(re.compile("episodes"))
    settle(page)
    total = web.get(f"runs/board/episodes?policy={name[1]}&opponent={name[2]}")["total"]
    assert page.get_by_text(f"{total} of ").first.inner_text().startswith(f"{total} of ")
    assert all(
        {name[1], name[2]} == {seat.partition("@0")[0] if "random" in seat else seat for seat in row[2].split(" – ")}
        for row in rows_of(page, "Episodes")
    )


def test_exploitability_of_a_computed_population_is_called_exact(open_page: Open, web: Web) -> None:
    page = open_page(web.of("psro", "league"))
    assert page.get_by_text("Exact: computed over the whole game.").count() == 1
    table = web.get("runs/psro/league")["exploitability"]
    page.locator("figure.chart summary").click()
    shown = rows_of(page, f"{table['label']} as a table")
    assert [int(row[1]) for row in shown] == table["generations"]
    assert [float(row[2]) for row in shown] == pytest.approx(table["values"], rel=1e-3)
    assert page.get_by_role("heading", name="Lineage").count() <= 1


def test_episodes_are_searched_paged_and_taken_along(open_page: Open, web: Web) -> None:
    page = open_page(web.of("board", "episodes"))
    page.get_by_label("Result").select_option("lost")
    page.wait_for_url(re.compile("result=lost"))
    settle(page)
    total = web.get("runs/board/episodes?result=lost")["total"]
    page.get_by_text(f"{total} of ").wait_for()
    assert {row[3] for row in rows_of(loaded_anew(page), "Episodes")} == {"lost"}
    with page.expect_download() as download:
        page.get_by_role("link", name="Download these as JSON lines").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert len(lines) == total
    assert {tuple(json.loads(line)["returns"]) for line in lines} <= {(1.0, -1.0), (-1.0, 1.0)}


def test_a_game_is_stepped_through_by_key_and_its_move_is_in_the_address(open_page: Open, web: Web) -> None:
    id = web.get("runs/board/episodes")["rows"][0]["id"]
    frames = web.get(f"runs/board/episodes/{id}")["board"]["frames"]
    page = open_page(web.of("board", f"episodes/{id}"))
    page.get_by_role("button", name="First", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"move=0"))
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile(r"move=3"))
    told = loaded_anew(page).locator("svg.board").get_attribute("aria-label")
    cells = frames[3]["cells"]
    assert told.count(" at row ") == sum(cell != "." for cell in cells) == 3
    assert page.locator("svg.board .stone").count() == 3
    page.get_by_role("button", name="go to move 2", exact=True).click()
    page.wait_for_url(re.compile(r"move=2"))
    page.locator("section.replay").get_by_role("button", name="Play", exact=True).click()
    page.wait_for_url(re.compile(rf"move={min(4, len(frames) - 1)}"))
    page.get_by_role("button", name="Stop").click()


def traced(web: Web, run: str) -> tuple[str, int, dict[str, Any]]:
    """An episode that the trainer's view of is kept, and the number of the sequence."""
    for row in web.get(f"runs/{run}/episodes?purpose=train&limit=200")["rows"]:
        episode = web.get(f"runs/{run}/episodes/{row['id']}")
        for place, card in enumerate(episode["sequences"]):
            if card["update"] is not None:
                return row["id"], place, web.get(f"runs/{run}/episodes/{row['id']}/tokens?sequence={place}")
    raise AssertionError("no sequence of the newest episodes was traced")


def test_tokens_tell_their_exact_numbers_by_key_and_pointer(open_page: Open, web: Web) -> None:
    id, sequence, tokens = traced(web, "words")
    page = open_page(web.of("words", f"episodes/{id}", f"sequence={sequence}"))
    page.locator(".token[data-at]").first.wait_for()
    own = tokens["columns"]["mask"].index(True)
    assert page.locator(".token[data-at].other").count() == tokens["columns"]["mask"].count(False)
    page.locator(".tokens").focus()
    for _ in range(own + 1):
        page.keyboard.press("ArrowRight")
    told = page.locator(".numbers").inner_text()
    assert told.startswith(f"#{own} ")
    assert f"advantage {tokens['columns']['advantage'][own]}" in told
    assert f"logp {tokens['columns']['logp'][own]}" in told
    page.locator(".token[data-at='0']").hover()
    page.get_by_text(re.compile(r"#0 .*masked")).wait_for()
    page.get_by_label("Colour by").select_option("ratio")
    page.wait_for_url(re.compile("colour=ratio"))
    assert loaded_anew(page).get_by_label("Colour by").input_value() == "ratio"
    options = page.get_by_label("Colour by").locator("option")
    for option in options.all():
        is_there = option.evaluate("node => node.value") in tokens["columns"]
        assert option.evaluate("node => node.disabled") != is_there
        assert ("not recorded" in option.inner_text()) != is_there
    page.get_by_role("button", name="Show as a table").click()
    assert len(rows_of(page, "Tokens with their numbers")) == len(tokens["columns"]["action"])


def test_attempts_of_a_group_stand_side_by_side(open_page: Open, web: Web) -> None:
    row = web.get("runs/tasks%2F3_grpo/episodes?purpose=train")["rows"][0]
    group = web.get(f"runs/tasks%2F3_grpo/episodes/{row['id']}")["siblings"]
    page = open_page(web.of("tasks/3_grpo", f"episodes/{row['id']}"))
    page.get_by_role("button", name="Show the replies side by side").click()
    page.wait_for_url(re.compile("group=open"))
    loaded_anew(page).locator(".beside pre, .beside li").last.wait_for()
    assert page.locator(".beside li").count() == len(group) > 1
    assert page.locator(".beside li.this").count() == 1
    check_looks(page)
    replies = [web.get(f"runs/tasks%2F3_grpo/episodes/{each['id']}")["turns"][-1]["text"] for each in group]
    assert len(set(replies)) > 1
    assert page.locator(".beside pre").count() == len(replies)


def test_pass_rates_and_refusals_are_counted(open_page: Open, web: Web) -> None:
    page = open_page(web.of("tasks/3_grpo", "tasks"))
    for told in web.get("runs/tasks%2F3_grpo/tasks")["sets"]:
        words = "training" if told["purpose"] == "train" else "held-out or evaluated"
        section = page.get_by_role("region", name=f"{told['name']}, {words}", exact=True)
        assert f"{told['rate'] * 100:.1f} % of {told['attempts']:,} attempts solved" in section.inner_text()
    page.goto(web.of("words", "refused"))
    settle(page)
    counts = web.get("runs/words/refused")["counts"]
    shown = rows_of(page, "Refusals by reason") if counts else []
    assert {row[0]: int(row[1].replace(",", "")) for row in shown} == counts


def test_config_and_log_are_filtered(open_page: Open, web: Web) -> None:
    page = open_page(web.of("board", "config"))
    page.get_by_label("Filter").fill("train.steps")
    page.wait_for_url(re.compile("filter=train.steps"))
    assert rows_of(loaded_anew(page), "Config")[0] == [
        "train.steps",
        str(web.get("runs/board")["config"]["train"]["steps"]),
    ]
    page.goto(web.of("board", "log"))
    page.locator(".entry").first.wait_for()
    page.get_by_label("Filter").fill("published -main@0")
    page.wait_for_url(re.compile("filter="))
    entries = page.get_by_role("region", name="Events and messages").locator(".entry").all_inner_texts()
    assert entries
    assert all("published" in entry and "main@0" not in entry for entry in entries)
