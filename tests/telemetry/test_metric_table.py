"""The table of metrics: every row is proven by a run or by the code that emits it, and the page is made from it.

What real runs emit is held against the table where those runs are made: look for `check_promises`.
"""

import json
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from promises import ELSEWHERE, PROMISES, check_promises

import ludus
from ludus import SingleRun, parse_config
from ludus.cli.listings import metrics
from ludus.errors import ConfigError
from ludus.telemetry.metric_table import METRICS, find_metric, metrics_page, search_metrics

ROOT = Path(__file__).parents[2]
SOURCE = Path(ludus.__file__).parent
TABULAR = """
name: kuhn
games: [open_spiel:kuhn_poker]
population: {stop: {generations: 2}}
"""


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "metrics.md").read_text() == metrics_page(), "run: make pages"


def test_no_row_is_there_twice_and_each_says_something() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names))
    assert all(metric.unit and metric.meaning and "|" not in metric.meaning for metric in METRICS)


def test_every_row_is_proven_by_a_run_or_by_its_emitter() -> None:
    proven = {row for rows in PROMISES.values() for row in rows} | ELSEWHERE.keys()
    assert proven == {metric.name for metric in METRICS}


@pytest.mark.parametrize("row", sorted(ELSEWHERE))
def test_a_rare_row_is_named_by_the_code_that_emits_it(row: str) -> None:
    text = (SOURCE / ELSEWHERE[row]).read_text()
    _, _, rest = row.partition("/")
    stem = {"experience/<figure>": "experience/{key}"}.get(row, re.sub(r"<\w+>|\[.*?\]", "", rest).split("/")[-1])
    stem = {"pairs_epochs": "_epochs", "pairs_rows": "_rows", "pairs_refused": "_refused"}.get(stem, stem)
    assert stem in text, f"{row} is not emitted any more"


def test_exact_psro_emits_what_is_promised(tmp_path: Path) -> None:
    assert SingleRun(parse_config(TABULAR, "kuhn.yaml"), tmp_path / "run").run_to_end().stage == "done"
    check_promises("tabular", tmp_path / "run")


def test_runs_that_prove_promises_are_made() -> None:
    texts = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert {kind for kind in PROMISES if f'check_promises("{kind}"' not in texts} == set()


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("evaluate/random/score", "evaluate/[<game>/]<player>/score"),
        ("evaluate/return", "evaluate/return"),
        ("evaluate/held_out/pass@4", "evaluate/<taskset>/pass@<k>"),
        ("evaluate/ludus/arithmetic/mean", "evaluate/<taskset>/mean[@<k>]"),
        ("explore/length", "explore/[<game>/]length"),
        ("explore/open_spiel:kuhn_poker/seat_1/wins", "explore/[<game>/]seat_<seat>/wins"),
        ("train/ppo_clip", "train/<term>"),
        ("train/kl_2", "train/<term>"),
        ("train/entropy", "train/entropy"),
        ("experience/pass_rate", "experience/pass_rate"),
        ("learner/main/train/loss", "train/loss"),
        ("time/explore_s", "time/<room>_s"),
    ],
)
def test_a_name_is_explained_by_its_row(name: str, row: str) -> None:
    found = find_metric(name)
    assert found is not None
    assert found.name == row


@pytest.mark.parametrize(
    "name", ["train/zzz", "evaluate/score", "loss", "time/s", "psro/seat_x/policies", "learner/main/x"]
)
def test_a_name_that_nobody_emits_is_in_no_row(name: str) -> None:
    assert find_metric(name) is None


def test_a_word_finds_rows_by_name_and_meaning() -> None:
    assert [metric.name for metric in search_metrics("train/approx_kl")] == ["train/approx_kl"]
    assert "train/staleness" in [metric.name for metric in search_metrics("stale")]
    assert "league/sigma" in [metric.name for metric in search_metrics("uncertainty")]


def test_the_command_tells_unit_and_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    metrics("evaluate/random/score")
    assert capsys.readouterr().out.startswith("evaluate/[<game>/]<player>/score  points against a fixed player")
    metrics("", as_json=True)
    assert len(json.loads(capsys.readouterr().out)) == len(METRICS)
    with pytest.raises(ConfigError, match="no metric has 'zzz'"):
        metrics("zzz")
