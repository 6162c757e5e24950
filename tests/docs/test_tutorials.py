"""The tutorials run as they are printed: files and commands are taken out of the pages. Here cut to seconds; whole, and
with what a page says of the result, in the slow ones."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from statistics import fmean
from types import ModuleType

import pytest

from ludus.storage.jsonl import read_jsonl

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
FEW = "evaluate.games=2 evaluate.final_games=2"
CUTS = {
    "text_game": {
        "nim.yaml": f"warm_start.games=40 train.updates=2 train.batch_episodes=8 explore.games_in_flight=8 evaluate.every=50 {FEW}"
    },
    "jsonl": {"reverse.yaml": "train.updates=2 stages.1.train.batch_episodes=16 explore.games_in_flight=16"},
    "psro": {"heavy_rock.yaml": "train.steps=200 population.stop.generations=2 population.payoffs.games=4"},
}
"""By page: what goes behind `ludus run FILE`. The page `rounds` has two runs at once and is run whole, in the slow test."""


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rerun", TUTORIALS / "rerun.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_pictures(tool: ModuleType, page: str, folder: Path) -> None:
    """What the page shows was drawn by the run, and is in the documentation."""
    shown = tool.PICTURE.findall((TUTORIALS / f"{page}.md").read_text())
    assert shown
    for target, source in shown:
        assert (folder / source).stat().st_size > 1000
        assert (TUTORIALS / target).is_file(), "run: make tutorials"


def test_every_tutorial_is_run(tool: ModuleType) -> None:
    assert {path.stem for path in TUTORIALS.glob("*.md")} == {*tool.PAGES} == {*CUTS, "rounds"}


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_a_reader_is_led_to_every_tutorial(page: str, tool: ModuleType) -> None:
    root = TUTORIALS.parents[1]
    folder = TUTORIALS.relative_to((root / page).parent)
    assert [name for name in tool.PAGES if f"]({folder}/{name}.md)" not in (root / page).read_text()] == []


def test_every_command_of_a_tutorial_shows_its_output(tool: ModuleType) -> None:
    for page in tool.PAGES:
        blocks = [
            block for kind, block in tool.BLOCK.findall((TUTORIALS / f"{page}.md").read_text()) if kind == "console"
        ]
        assert blocks
        for block in blocks:
            assert len(block.splitlines()) > len(tool.commands(block)), f"{page}: run: make tutorials"


@pytest.mark.parametrize("page", ["jsonl", *(pytest.param(p, marks=pytest.mark.slow) for p in CUTS if p != "jsonl")])
def test_a_tutorial_runs_as_it_is_printed(page: str, tool: ModuleType, tmp_path: Path) -> None:
    tool.rerun(page, tmp_path, CUTS[page])
    check_pictures(tool, page, tmp_path)


def last(run: Path, metric: str) -> float:
    return [line[metric] for line in read_jsonl(run / "metrics.jsonl") if metric in line][-1]


@pytest.mark.slow
def test_the_whole_tutorials_end_as_they_say(tool: ModuleType, tmp_path: Path) -> None:
    for page in tool.PAGES:
        (tmp_path / page).mkdir()
        text = tool.rerun(page, tmp_path / page)
        check_pictures(tool, page, tmp_path / page)
        assert len(text) > 1000
    assert last(tmp_path / "text_game/runs/word_nim", "evaluate/random/score") > 0.75
    grpo = tmp_path / "jsonl/runs/reverse/2_grpo"
    rewards = [line["train/reward"] for line in read_jsonl(grpo / "metrics.jsonl") if "train/reward" in line]
    assert fmean(rewards[-10:]) > fmean(rewards[:10]) + 0.03
    assert last(grpo, "evaluate/held_out/success") > 0.5
    assert last(tmp_path / "psro/runs/heavy_rock", "psro/nash_conv_bound") < 0.5
    assert last(tmp_path / "rounds/runs/trainer", "evaluate/random/score") > 0.7
