"""Every preset has a page, and the page says what the preset is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from ludus.config import ALGORITHMS, LOSS_OPTIONS, TermConfig, build_config
from ludus.config.sections.chess_losses import CHESS_LOSS_OPTIONS, CHESS_OBJECTIVE

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "algorithms"
PRESETS = {*ALGORITHMS, "chess"}


def test_every_preset_has_a_page_in_the_folder_the_index_and_the_menu() -> None:
    assert {page.stem for page in FOLDER.glob("*.md")} == PRESETS | {"index"}
    index, menu = (FOLDER / "index.md").read_text(), (ROOT / "mkdocs.yml").read_text()
    assert set(re.findall(r"^\| \[(\w+)\]\(\1\.md\)", index, re.MULTILINE)) == PRESETS
    assert set(re.findall(r"algorithms/(\w+)\.md", menu)) == PRESETS | {"index"}


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_a_page_has_formula_normaliser_source_and_the_parts_of_its_preset(name: str) -> None:
    page = (FOLDER / f"{name}.md").read_text()
    assert page.startswith(f"# {name}: ")
    for part in ("```\n", "**Normaliser.**", "**Where others differ.**", "**Source.**"):
        assert part in page
    block = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[0]
    train = build_config({"name": "x", "games": ["pgx:connect_four"], **yaml.safe_load(block)}).train
    preset, given = ALGORITHMS[name], train.algorithm
    assert given.preset == name
    assert (train.epochs, train.aggregation) == (preset.epochs, preset.aggregation)
    assert (given.advantage, given.mu) == (preset.advantage, preset.mu)
    assert given.objective == preset.objective


def test_the_index_lists_every_loss_with_its_options() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| .*? \| (.*?) \|", (FOLDER / "index.md").read_text(), re.MULTILINE))
    for loss, options in LOSS_OPTIONS.items():
        named = set(re.findall(r"`(\w+)`", rows[loss])) | ({"importance"} if "importance" in rows[loss] else set())
        assert named == {name for name in options if not name.startswith("importance_")}, loss


def test_the_page_of_chess_has_its_preset_and_every_option_of_its_losses() -> None:
    page = (FOLDER / "chess.md").read_text()
    block = yaml.safe_load(re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[0])
    terms = [TermConfig.model_validate(term) for term in block["train"]["algorithm"]["objective"]]
    assert tuple(terms) == CHESS_OBJECTIVE
    named = set(re.findall(r"`(\w+)`", page)) | set(re.findall(r"^(\w+) ", page, re.MULTILINE))
    for loss, options in CHESS_LOSS_OPTIONS.items():
        assert {loss, *options} <= named, loss
