"""A taskset is what is good of a file; what is not is counted, with place and reason."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ludus.config import TasksetConfig
from ludus.errors import ConfigError
from ludus.tasks import Taskset, load_taskset, taskset

Load = Callable[..., Taskset]
GOOD = [{"question": f"q{i}", "solution": str(i), "more": i} for i in range(5)]
FIELDS = {"prompt": "question", "answer": "solution"}


def test_fields_are_mapped_and_others_left_out(load: Load) -> None:
    made = load(GOOD, fields=FIELDS)
    assert made.rows[3] == {"prompt": "q3", "answer": "3"}
    assert (made.name, made.game, len(made), made.refused) == ("train", "tasks:train", 5, 0)


def test_without_a_mapping_every_column_is_a_field(load: Load) -> None:
    assert load([{"prompt": "a", "x": [1, {"y": None}]}]).rows == ({"prompt": "a", "x": [1, {"y": None}]},)


def test_fields_can_come_from_inside_of_a_column(load: Load) -> None:
    lines = [{"q": "a", "reward_model": {"ground_truth": "7"}}, {"q": "b", "reward_model": None}]
    made = load(lines, fields={"prompt": "q", "answer": "reward_model.ground_truth"})
    assert made.rows == ({"prompt": "a", "answer": "7"},)
    assert "train.jsonl:2: no field 'reward_model.ground_truth'; it has q, reward_model" in made.refusals[0]


def test_a_chat_list_of_one_question_is_a_prompt(load: Load) -> None:
    user, system = {"role": "user", "content": "2+2?"}, {"role": "system", "content": "Be brief."}
    reply = {"role": "assistant", "content": "4"}
    made = load(
        [
            {"prompt": [user]},
            {"prompt": [system, user]},
            {"prompt": [user, reply, user]},
            {"prompt": [system]},
            {"prompt": [1]},
        ]
    )
    assert made.rows == ({"prompt": "2+2?"}, {"prompt": "2+2?", "system": "Be brief."})
    assert [reason.split(": ", 1)[1] for reason in made.refusals] == [
        "field prompt: expected one system and one user message; longer conversations are no prompts",
        "field prompt: no message of the user",
        "field prompt: expected text, or messages with role and content",
    ]


def test_bad_rows_are_refused_with_line_and_reason_and_the_rest_is_kept(load: Load, tmp_path: Path) -> None:
    made = load(
        [
            GOOD[0],
            b"hello",
            {"question": 7, "solution": "x"},
            {"question": " ", "solution": "x"},
            {"solution": ""},
            GOOD[1],
        ],
        fields=FIELDS,
    )
    path = tmp_path / "train.jsonl"
    assert [row["prompt"] for row in made.rows] == ["q0", "q1"]
    assert made.refused == 4
    assert set(made.refusals) == {
        f"{path}:2: not JSON: Expecting value at column 1",
        f"{path}:3: field prompt: expected text that is not blank",
        f"{path}:4: field prompt: expected text that is not blank",
        f"{path}:5: no field 'question'; it has solution",
    }


def test_refusals_are_counted_all_and_kept_few(load: Load) -> None:
    made = load([{"prompt": "a"}, *[b"x"] * 500])
    assert (made.refused, len(made.refusals)) == (500, 20)


def test_strict_refuses_the_set_for_one_bad_row(load: Load) -> None:
    with pytest.raises(ConfigError) as caught:
        load([*GOOD, b"hello"], fields=FIELDS, strict=True)
    assert caught.value.problems[0] == "taskset train: strict, and 1 were refused"
    assert caught.value.problems[1].endswith("train.jsonl:6: not JSON: Expecting value at column 1")


def test_a_set_of_bad_rows_only_is_an_error_that_shows_some(load: Load) -> None:
    with pytest.raises(ConfigError) as caught:
        load([b"x"] * 30)
    assert caught.value.problems[0] == "taskset train: none of its rows can be used; 30 were refused"
    assert len(caught.value.problems) == 22
    assert caught.value.problems[-1] == "… and 10 more"


def test_reading_stops_when_nothing_is_good(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taskset, "MOST_FRUITLESS", 50)
    with pytest.raises(ConfigError, match="50 were refused"):
        load([b"x"] * 100_000)


def test_an_empty_file_has_no_rows(load: Load) -> None:
    with pytest.raises(ConfigError, match=r"taskset train: .*train.jsonl has no rows"):
        load([])
    with pytest.raises(ConfigError, match=r"has no rows left \(dropped: \{'0:filter': 5\}\)"):
        load(GOOD, fields=FIELDS, processors=[{"kind": "filter", "field": "prompt", "min_length": 9}])


def test_a_limit_reads_the_first_rows_only(load: Load) -> None:
    made = load([*GOOD, b"never read"], fields=FIELDS, limit=5)
    assert (len(made), made.refused) == (5, 0)


def test_a_set_that_is_too_large_says_what_to_do(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taskset, "MOST_ROWS", 3)
    with pytest.raises(ConfigError, match="read a part of it with limit"):
        load(GOOD, fields=FIELDS)
    assert len(load(GOOD, fields=FIELDS, limit=3)) == 3


def test_the_fingerprint_changes_with_rows_and_order_and_nothing_else(load: Load) -> None:
    first = load(GOOD, fields=FIELDS)
    assert load(GOOD, fields=FIELDS, weight=2.0).fingerprint == first.fingerprint
    assert load(GOOD[::-1], fields=FIELDS).fingerprint != first.fingerprint
    assert load(GOOD[:-1], fields=FIELDS).fingerprint != first.fingerprint
    assert load([{**GOOD[0], "solution": "9"}, *GOOD[1:]], fields=FIELDS).fingerprint != first.fingerprint


def test_other_sets_require_other_fields(write: Callable[..., Path]) -> None:
    path = write([{"messages": [{"role": "user", "content": "x"}], "response": "y"}])
    config = TasksetConfig.model_validate(str(path))
    assert len(load_taskset(config, required=("response",))) == 1
    with pytest.raises(ConfigError, match="no field 'prompt'; it has messages, response"):
        load_taskset(config)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"path": "nowhere/train.jsonl"}, "path: nowhere/train.jsonl: no such file"),
        ({"path": "nowhere/at/all"}, "no such file or folder, and no id of a dataset either"),
        ({"path": "x" * 300 + ".jsonl"}, "cannot be read: File name too long"),
        ({"split": "train"}, "is one file and has no splits"),
        ({"subset": "main"}, "subset: "),
    ],
)
def test_what_cannot_be_found_is_named(write: Callable[..., Path], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_taskset(TasksetConfig.model_validate({"path": str(write(GOOD)), "name": "x", **settings}))
    assert message in str(caught.value)
    assert str(caught.value).startswith("taskset x: ")


def test_a_json_list_and_unknown_endings_are_told_from_lines(write: Callable[..., Path]) -> None:
    whole = write([b"[", b'{"prompt": "a"}', b"]"], "x.json")
    with pytest.raises(ConfigError, match=r"is one JSON list; expected JSON lines \(jq -c"):
        load_taskset(TasksetConfig.model_validate(str(whole)))
    assert len(load_taskset(TasksetConfig.model_validate(str(write([{"prompt": "a"}], "y.json"))))) == 1
    odd = write([{"prompt": "a"}], "tasks.txt")
    with pytest.raises(ConfigError, match=r"has no known ending .* say what it is with format"):
        load_taskset(TasksetConfig.model_validate(str(odd)))
    assert len(load_taskset(TasksetConfig.model_validate({"path": str(odd), "format": "jsonl"}))) == 1


def test_what_is_not_a_plain_file_is_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "folder.parquet").mkdir()
    for name in ("pipe.jsonl", "folder.parquet"):
        with pytest.raises(ConfigError, match="is not a plain file"):
            load_taskset(TasksetConfig.model_validate(str(tmp_path / name)))


def test_columns_with_names_of_ours_must_be_renamed(load: Load) -> None:
    with pytest.raises(ConfigError, match=r"column 'row' has a name that tasks use themselves"):
        load([{"prompt": "a", "row": 1}])
    assert load([{"prompt": "a", "row": 1}], fields={"prompt": "prompt", "number": "row"}).rows[0]["number"] == 1
