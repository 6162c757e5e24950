"""Each processor does its one thing to the rows, in the order of the config."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ludus.config import TasksetConfig
from ludus.errors import ConfigError
from ludus.tasks import Taskset, load_taskset, register_processor
from ludus.tasks.processors import OWN


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., Taskset]:
    """Run processors over rows."""

    def process(rows: list[dict[str, Any]], *processors: Any, **settings: Any) -> Taskset:
        path = tmp_path / "x.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        values = {"path": str(path), "processors": list(processors), **settings}
        return load_taskset(TasksetConfig.model_validate(values))

    return process


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OWN, "added", {})


Process = Callable[..., Taskset]


def prompts(taskset: Taskset) -> str:
    return " ".join(row["prompt"] for row in taskset.rows)


# -- filter ------------------------------------------------------------------------------------------------------------

MIXED = [
    {"prompt": "a", "n": 1},
    {"prompt": "bb", "n": "2.5"},
    {"prompt": "ccc", "n": True},
    {"prompt": "dddd", "n": None},
    {"prompt": "eeeee", "n": [1, 2]},
    {"prompt": "ffffff"},
]


@pytest.mark.parametrize(
    ("comparison", "kept"),
    [
        ({"field": "n", "equals": 1}, "a"),
        ({"field": "n", "equals": True}, "ccc"),
        ({"field": "n", "differs": 1}, "bb ccc dddd eeeee"),
        ({"field": "n", "one_of": [True, "2.5"]}, "bb ccc"),
        ({"field": "n", "at_least": 0}, "a bb"),
        ({"field": "n", "at_least": 1.5, "at_most": 2.5}, "bb"),
        ({"field": "prompt", "min_length": 5}, "eeeee ffffff"),
        ({"field": "prompt", "max_length": 1}, "a"),
        ({"field": "n", "max_length": 2}, "eeeee"),
        ({"field": "prompt", "min_length": 2, "differs": "bb", "max_length": 4}, "ccc dddd"),
    ],
)
def test_filter_keeps_rows_of_which_everything_holds(process: Process, comparison: dict[str, Any], kept: str) -> None:
    made = process(MIXED, {"kind": "filter", **comparison})
    assert prompts(made) == kept
    assert made.dropped == {"0:filter": len(MIXED) - len(made)}
    assert made.refused == 0


# -- map ---------------------------------------------------------------------------------------------------------------


def test_map_fills_templates_from_the_row_as_it_was(process: Process) -> None:
    rows = [{"prompt": "2+2", "answer": 4, "unit": ["m", {"k": "é"}]}]
    fields = {"prompt": "{{Q}} {prompt}\n", "answer": "{answer}", "both": "{prompt}|{unit}"}
    made = process(rows, {"kind": "map", "fields": fields})
    assert made.rows[0] == {
        "prompt": "{Q} 2+2\n",
        "answer": "4",
        "unit": ["m", {"k": "é"}],
        "both": '2+2|["m", {"k": "é"}]',
    }


def test_map_never_looks_into_what_it_puts_in(process: Process) -> None:
    made = process([{"prompt": "{answer.__class__} %s {0}"}], {"kind": "map", "fields": {"prompt": "{prompt}!"}})
    assert prompts(made) == "{answer.__class__} %s {0}!"


def test_map_refuses_rows_that_lack_a_field_or_would_grow_too_large(process: Process) -> None:
    rows = [{"prompt": "a", "x": "1"}, {"prompt": "b"}, {"prompt": "c", "x": "y" * 1_000_000}]
    made = process(rows, {"kind": "map", "fields": {"prompt": "{x}" * 100}})
    assert prompts(made) == "1" * 100
    assert [reason.split("jsonl:")[1] for reason in made.refusals] == [
        "2: no field 'x' for a template",
        "3: a template would make more than 4,194,304 characters",
    ]


# -- deduplicate -------------------------------------------------------------------------------------------------------


def test_deduplicate_keeps_the_first_of_rows_that_are_alike(process: Process) -> None:
    rows = [
        {"prompt": text, "answer": answer}
        for text, answer in (("a b", 1), ("A  b", 2), ("a b", 3), ("ﬁ", 4), ("fi", 5))
    ]
    assert [row["answer"] for row in process(rows, "deduplicate").rows] == [1, 2, 4, 5]
    assert [row["answer"] for row in process(rows, {"kind": "deduplicate", "how": "normalised"}).rows] == [1, 4]
    by_both = process(rows, {"kind": "deduplicate", "fields": ["prompt", "answer"]})
    assert len(by_both) == 5
    assert process(rows, "deduplicate").dropped == {"0:deduplicate": 1}


def test_normalising_does_not_make_different_sums_alike(process: Process) -> None:
    rows = [{"prompt": text} for text in ("1 - 2", "1 2", "1 + 2", "12", "1.2")]
    assert len(process(rows, {"kind": "deduplicate", "how": "normalised"})) == 5


def test_deduplicate_refuses_rows_without_the_field(process: Process) -> None:
    made = process([{"prompt": "a", "id": 1}, {"prompt": "b"}], {"kind": "deduplicate", "fields": ["id"]})
    assert made.refusals[0].endswith("x.jsonl:2: no field 'id' to compare")


# -- score_difficulty and prioritise -----------------------------------------------------------------------------------


def test_difficulty_is_the_share_of_rows_that_are_easier(process: Process) -> None:
    rows = [{"prompt": "x" * n, "rate": rate} for n, rate in ((3, 0.5), (1, "0.9"), (3, 0.1), (2, 0.5), (9, 0.2))]
    assert [row["difficulty"] for row in process(rows, "score_difficulty").rows] == [0.5, 0.0, 0.5, 0.25, 1.0]
    by_rate = {"kind": "score_difficulty", "field": "rate", "by": "value", "harder": "lower"}
    assert [row["difficulty"] for row in process(rows, by_rate).rows] == [0.25, 0.0, 1.0, 0.25, 0.75]


def test_a_set_of_one_row_is_not_difficult(process: Process) -> None:
    assert process([{"prompt": "a"}], "score_difficulty").rows[0]["difficulty"] == 0.0


def test_rows_that_cannot_be_scored_are_refused(process: Process) -> None:
    rows = [{"prompt": "a", "n": 1}, {"prompt": "b", "n": "many"}, {"prompt": "c"}]
    made = process(rows, {"kind": "score_difficulty", "field": "n", "by": "value"})
    assert [reason.split("jsonl:")[1] for reason in made.refusals] == [
        "2: field n: expected a number to score its difficulty by",
        "3: no field 'n' to score its difficulty by",
    ]
    with pytest.raises(ConfigError, match="expected text or a list"):
        process(rows[:1], {"kind": "score_difficulty", "field": "n"})


def test_prioritise_sorts_by_a_weighted_sum_of_ranks(process: Process) -> None:
    rows = [
        {"prompt": p, "quality": q, "cost": c} for p, q, c in (("a", 1, 5), ("b", 1000, 5), ("c", 2, 1), ("d", 1, 5))
    ]
    assert prompts(process(rows, {"kind": "prioritise", "weights": {"quality": 1.0}})) == "b c a d"
    both = {"kind": "prioritise", "weights": {"quality": 0.2, "cost": -1.0}, "keep": 2}
    made = process(rows, both)
    assert prompts(made) == "c b"
    assert made.dropped == {"0:prioritise": 2}


def test_prioritise_refuses_rows_without_a_number(process: Process) -> None:
    made = process([{"prompt": "a", "q": 1}, {"prompt": "b", "q": None}], {"kind": "prioritise", "weights": {"q": 1.0}})
    assert made.refusals[0].endswith("x.jsonl:2: field q: expected a number to sort by")


# -- a user's own ------------------------------------------------------------------------------------------------------


def test_a_function_of_one_row_changes_drops_and_refuses(process: Process) -> None:
    def halve(row: dict[str, Any], least: int = 0) -> dict[str, Any] | None:
        row["n"] = 10 // row["n"]
        return row if row["n"] >= least else None

    register_processor("halve", halve)
    rows = [{"prompt": "a", "n": 2}, {"prompt": "b", "n": 0}, {"prompt": "c", "n": 10}]
    made = process(rows, {"kind": "custom", "name": "halve", "options": {"least": 2}})
    assert made.rows == ({"prompt": "a", "n": 5},)
    assert made.dropped == {"0:custom": 1}
    assert made.refusals[0].endswith(
        "x.jsonl:2: processor halve: ZeroDivisionError: integer division or modulo by zero"
    )


@pytest.mark.parametrize(
    "junk", ["text", {"prompt": object()}, {"prompt": "a", "x": float("nan")}, {"prompt": "a", 1: 2}]
)
def test_junk_from_a_function_costs_its_row_and_names_the_function(process: Process, junk: Any) -> None:
    register_processor("junk", lambda row: junk if row["prompt"] == "bad" else row)
    made = process([{"prompt": "bad"}, {"prompt": "good"}], {"kind": "custom", "name": "junk"}, "deduplicate")
    assert prompts(made) == "good"
    assert "x.jsonl:1: processor junk: " in made.refusals[0]


def test_a_function_cannot_give_a_row_the_fields_that_tasks_use(process: Process) -> None:
    register_processor("index", lambda row: {**row, "row": 7})
    with pytest.raises(ConfigError, match="field row: tasks use this name themselves"):
        process([{"prompt": "a"}], {"kind": "custom", "name": "index"})


def test_a_function_of_the_whole_set_may_reorder_drop_and_add(process: Process) -> None:
    def mirror(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [*reversed(rows), {"prompt": "new"}, {"answer": "no prompt"}]

    register_processor("mirror", mirror, whole=True)
    made = process([{"prompt": "a"}, {"prompt": "b"}], {"kind": "custom", "name": "mirror"})
    assert prompts(made) == "b a new"
    assert made.refusals[0].endswith("x.jsonl:0: no field 'prompt'; it has answer")


def test_a_whole_set_function_that_fails_is_an_error_with_its_place(process: Process) -> None:
    register_processor("broken", lambda rows: rows[99], whole=True)
    with pytest.raises(ConfigError, match=r"taskset x: processors.1: processor broken: IndexError"):
        process([{"prompt": "a"}], "deduplicate", {"kind": "custom", "name": "broken"})
    register_processor("a_word", lambda rows: "all of them", whole=True)
    with pytest.raises(ConfigError, match=r"processor a_word: expected a list of rows from it"):
        process([{"prompt": "a"}], {"kind": "custom", "name": "a_word"})


def test_an_unknown_name_is_refused_with_the_nearest_one(process: Process) -> None:
    register_processor("balance", lambda row: row)
    with pytest.raises(ConfigError, match=r"processor 'balanced': no such processor; did you mean balance\?"):
        process([{"prompt": "a"}], {"kind": "custom", "name": "balanced"})


def test_processors_run_in_their_order(process: Process) -> None:
    rows = [{"prompt": p} for p in ("bb", "a", "a", "cccc")]
    made = process(
        rows,
        "deduplicate",
        "score_difficulty",
        {"kind": "filter", "field": "difficulty", "at_most": 0.5},
        {"kind": "prioritise", "weights": {"difficulty": -1.0}},
        {"kind": "map", "fields": {"prompt": "<{prompt}>"}},
    )
    assert prompts(made) == "<a> <bb>"
    assert made.dropped == {"0:deduplicate": 1, "2:filter": 1}
