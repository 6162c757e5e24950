"""Rows out to a file and back: unchanged does nothing, every change arrives as asked for, and every flaw has its line."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ludus.buffer import ImportStore, put_into_inbox
from ludus.errors import ConfigError
from ludus.experience import KeptRows, RefusedLog
from ludus.experience.kept_rows import StoredRow, last_reply, view_row
from ludus.experience.row_edits import EditedRows
from ludus.experience.row_files import Line, export_rows, import_rows, newest_rows
from ludus.records import Experiences
from ludus.storage.arrow import experiences_to_table
from ludus.storage.catalog import Catalog
from ludus.storage.segments import SegmentLog
from ludus.testing.experiences import sample_experiences

VERIFIED, REFUSED = range(6), range(6, 9)


def decode(tokens: Sequence[int], marks: bool) -> str:
    return "".join(chr(ord("a") + token) for token in tokens if token >= 0)


def encode(text: str) -> list[int]:
    return [ord(letter) - ord("a") for letter in text]


def token_rows(tasks: Sequence[int], rewards: Sequence[float]) -> Experiences:
    """Two tokens of a prompt and three of an answer, in groups of three."""
    rows = sample_experiences([5] * len(tasks), tasks=tasks, rewards=rewards, tokens=True, version=3)
    action = np.tile(np.array([0, 1, 2, 3, 4], np.int32), len(tasks))
    action[4::5] = [task % 26 for task in tasks]
    mask = np.tile([False, False, True, True, True], len(tasks))
    groups = {"group": np.array([f"g{task // 3}" for task in tasks], object)}
    return rows.replace(sequences=groups, steps={"action": action, "mask": mask})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with Catalog(tmp_path / "catalog.sqlite") as catalog:
        log = SegmentLog(tmp_path, "experiences", catalog)
        log.append(experiences_to_table(token_rows(VERIFIED, (0, 0, 1, 1, 1, 1))))
        log.commit()
        refused = token_rows(REFUSED, (0.5, 0.5, np.nan))
        texts = {"reason": ["zero_variance", "zero_variance", "not_finite"], "detail": ["all 2", "all 2", "reward"]}
        columns = {name: np.array(values, object) for name, values in texts.items()}
        RefusedLog(tmp_path, catalog).add(refused.replace(sequences=columns))
    return tmp_path


Export = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def export(run: Path) -> Export:
    def write(what: Any = "all", limit: int | None = None, reason: str = "") -> list[dict[str, Any]]:
        path = run / "rows.jsonl"
        export_rows(newest_rows(KeptRows(run), what, limit, reason=reason), decode, path)
        return [json.loads(line) for line in path.read_text().splitlines()]

    return write


def bring_back(run: Path, lines: Sequence[dict[str, Any]], *, has_expert: bool = True) -> EditedRows:
    numbered = [Line(number=number, fields=line) for number, line in enumerate(lines, start=1)]
    return import_rows(
        numbered, "rows.jsonl", KeptRows(run), decode=decode, text=lambda: (encode, 40), has_expert=has_expert
    )


def test_export_has_what_a_person_needs_to_judge_a_row(export: Export) -> None:
    lines = export()
    assert [line["task"] for line in lines] == [*VERIFIED, *REFUSED]
    assert lines[2] == {
        "id": "episode-2/0", "status": "verified", "reason": "", "detail": "", "accept": True,
        "reward": 1.0, "raw_reward": 1.0, "prompt": "ab", "response": "cdc",
        "game": "game", "group": "g0", "task": 2, "attempt": 0, "policy": "main", "version": 3, "truncated": False,
    }  # fmt: skip
    assert lines[8]["accept"] is False
    assert lines[8]["reason"] == "not_finite"
    assert lines[8]["reward"] is None


def test_export_can_be_narrowed(export: Export) -> None:
    assert [line["task"] for line in export("verified", 2)] == [4, 5]
    assert [line["task"] for line in export("refused", 2)] == [7, 8]
    assert [line["task"] for line in export("all", 4)] == [5, 6, 7, 8]
    assert [line["task"] for line in export("all", None, "zero_variance")] == [6, 7]


def test_what_was_exported_and_not_changed_does_nothing(run: Path, export: Export) -> None:
    made = bring_back(run, export())
    assert len(made.rows) == 0
    assert made.unchanged == 9
    noted = [{**line, "note": "fine"} for line in export()]
    assert len(bring_back(run, noted).rows) == 0


def test_changed_reward_comes_back_with_the_rest_of_its_group(run: Path, export: Export) -> None:
    lines = export("verified")
    lines[0]["reward"] = 0.75
    made = bring_back(run, lines)
    rows = made.rows
    assert (made.on_policy, made.along, made.unchanged) == (1, 2, 3)
    assert rows.sequences["task"].tolist() == [0, 1, 2]
    assert rows.sequences["shaped_reward"].tolist() == [0.75, 0.0, 1.0]
    assert rows.sequences["final_reward"].tolist() == [0.75, 0.0, 1.0]
    assert rows.steps["reward"][4] == np.float32(0.75)
    assert set(rows.sequences["source"]) == {"on_policy"}
    assert len(set(rows.sequences["group"])) == 1
    assert rows.sequences["group"][0].startswith("g0+")
    assert not set(rows.sequences["episode"]) & {line["id"].partition("/")[0] for line in lines}
    logp = KeptRows(run).read([0, 1, 2]).steps["logp"]
    np.testing.assert_array_equal(rows.steps["logp"], logp)


def test_rejected_row_does_not_come_along_and_is_named(run: Path, export: Export) -> None:
    lines = export("verified")
    lines[0]["reward"], lines[1]["accept"] = 0.75, False
    made = bring_back(run, lines)
    assert dict(zip(made.rows.sequences["task"].tolist(), made.rows.sequences["source"].tolist(), strict=True)) == {
        0: "on_policy", 2: "on_policy", 1: "rejected",
    }  # fmt: skip
    assert made.rejected == 1
    assert made.rows.sequences["episode"][2] == "episode-1"


def test_refused_row_that_is_accepted_comes_back(run: Path, export: Export) -> None:
    lines = export("refused")
    for line in lines[:2]:
        line["accept"] = True
    lines[1]["reward"] = 0.9
    made = bring_back(run, lines)
    assert made.on_policy == 2
    assert made.rows.sequences["shaped_reward"].tolist() == pytest.approx([0.5, 0.9])
    assert "reason" not in made.rows.sequences
    lines[2].update(accept=True, reward=2.0)
    assert bring_back(run, lines).rows.sequences["final_reward"].tolist() == pytest.approx([0.5, 0.9, 2.0])


def test_changed_answer_can_only_be_imitated(run: Path, export: Export) -> None:
    lines = export("verified")
    lines[3]["response"] = "xyz"
    made = bring_back(run, lines)
    assert (made.expert, made.along) == (1, 0)
    assert made.rows.steps["action"].tolist() == [0, 1, 23, 24, 25]
    assert made.rows.steps["mask"].tolist() == [False, False, True, True, True]
    assert not made.rows.steps["logp"].any()
    assert made.rows.sequences["source"].tolist() == ["expert"]
    lines[3]["source"] = "on_policy"
    with pytest.raises(ConfigError, match=r"^rows.jsonl:4: response: the policy did not say this"):
        bring_back(run, lines)


def test_good_answer_can_be_imitated_as_it_is(run: Path, export: Export) -> None:
    lines = export("verified")
    lines[5]["source"] = "expert"
    made = bring_back(run, lines)
    assert made.expert == 1
    assert made.rows.steps["action"].tolist() == [0, 1, 2, 3, 5]


def test_same_file_twice_arrives_once_and_another_change_arrives_too(run: Path, export: Export) -> None:
    lines = export()
    lines[0]["reward"], lines[3]["response"], lines[5]["accept"] = 0.75, "xyz", False
    with Catalog(run / "catalog.sqlite") as catalog:
        store = ImportStore(run, catalog)
        for expected in (5, 0):
            put_into_inbox(run / "inbox", bring_back(run, lines).rows)
            assert store.take_inbox() == expected
        assert store.rejected == {(5, 0, 0)}
        assert 5 not in [task for _, rows in KeptRows(run).scan() for task in rows.sequences["task"]]
        rejected = newest_rows(KeptRows(run), "refused", None, reason="rejected_by_person")
        assert [stored.id for stored in rejected] == ["episode-5/0"]
        again = export()
        again[0]["reward"] = 0.8
        put_into_inbox(run / "inbox", bring_back(run, again).rows)
        assert store.take_inbox() == 3


def test_row_that_was_refused_since_it_was_exported_is_not_brought_back_by_accident(run: Path, export: Export) -> None:
    lines = export("verified")
    with Catalog(run / "catalog.sqlite") as catalog:
        texts = {name: np.full(3, "zero_variance", object) for name in ("reason", "detail")}
        RefusedLog(run, catalog).add(token_rows(range(3, 6), (1, 1, 1)).replace(sequences=texts))
    assert len(bring_back(run, lines).rows) == 0
    lines[4]["accept"] = False
    assert len(bring_back(run, lines).rows) == 0
    lines[4].update(accept=True, status="refused")  # as an export of now would have it
    assert bring_back(run, lines).on_policy == 1


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"id": "nobody/0"}, "the run has no row 'nobody/0' (any more)"),
        ({"id": 3}, "the run has no row '3' (any more)"),
        ({"rewrad": 1.0}, "unknown field 'rewrad'; did you mean reward?"),
        ({"prompt": "zz"}, "prompt cannot be changed; only accept, reward, response, source, note can"),
        ({"group": "g9"}, "group cannot be changed"),
        ({"accept": "yes"}, "accept: expected true or false"),
        ({"reward": "1"}, "reward: expected a finite number"),
        ({"reward": True}, "reward: expected a finite number"),
        ({"reward": 1e39}, "reward: expected a finite number"),
        ({"reward": None}, "reward: expected a number, got null"),
        ({"response": " "}, "response: expected text that is not blank"),
        ({"response": None, "accept": True, "source": "other"}, "source: expected on_policy or expert"),
        ({"accept": False, "reward": 9.0}, "it was changed, but is not accepted"),
        ({"response": "x" * 50}, "response: 52 tokens with what comes before, more than the context of 40"),
    ],
)
def test_every_flaw_is_reported_with_its_line_and_nothing_is_taken(
    run: Path, export: Export, change: dict[str, Any], problem: str
) -> None:
    lines = export()
    lines[1] = {**lines[1], **change}
    with pytest.raises(ConfigError) as refused:
        bring_back(run, lines)
    (said,) = refused.value.problems
    assert said.startswith("rows.jsonl:2: ")
    assert problem in said


def test_all_flaws_are_reported_at_once_up_to_a_bound(run: Path, export: Export) -> None:
    lines = [{**line, "reward": "bad"} for line in export()] * 4
    with pytest.raises(ConfigError) as refused:
        bring_back(run, [{}, *lines])
    assert refused.value.problems[0] == "rows.jsonl:1: no id"
    assert refused.value.problems[-1] == "… and 17 more problems"


def test_row_is_decided_about_once(run: Path, export: Export) -> None:
    lines = export("verified", 1)
    with pytest.raises(ConfigError, match=r"rows.jsonl:2: the row episode-5/0 is already in line 1"):
        bring_back(run, lines * 2)


def test_expert_rows_need_a_run_that_learns_from_them(run: Path, export: Export) -> None:
    lines = export("verified")
    lines[0]["response"] = "xyz"
    with pytest.raises(ConfigError, match=r"its config has no `buffer\.expert`"):
        bring_back(run, lines, has_expert=False)


def test_row_without_usable_log_probabilities_cannot_be_trained_on_but_imitated(run: Path, export: Export) -> None:
    with Catalog(run / "catalog.sqlite") as catalog:
        bad = token_rows([20], [1.0])
        texts = {"reason": np.array(["not_finite"], object), "detail": np.array(["logp"], object)}
        logp = bad.steps["logp"].copy()
        logp[3] = np.nan
        RefusedLog(run, catalog).add(bad.replace(sequences=texts, steps={"logp": logp}))
    lines = export("refused", None, "not_finite")[-1:]
    lines[0]["accept"] = True
    with pytest.raises(ConfigError, match=r"rows.jsonl:1: the row cannot be used \(not_finite: element 3: logp"):
        bring_back(run, lines)
    lines[0]["source"] = "expert"
    assert bring_back(run, lines).expert == 1


def test_board_rows_have_moves_and_their_rewards_can_be_changed(tmp_path: Path) -> None:
    with Catalog(tmp_path / "catalog.sqlite") as catalog:
        log = SegmentLog(tmp_path, "experiences", catalog)
        log.append(experiences_to_table(sample_experiences((3, 2), rewards=(1.0, 0.0))))
        log.commit()
    (first, second) = (view_row(stored, None) for stored in newest_rows(KeptRows(tmp_path), "all", None))
    assert len(first["actions"]) == 3
    assert "response" not in first
    lines = [Line(number=1, fields={**first, "reward": 0.5}), Line(number=2, fields=second)]
    made = import_rows(lines, "f", KeptRows(tmp_path), decode=None, text=None, has_expert=False)
    assert (made.on_policy, made.along) == (1, 0)
    bad = [Line(number=1, fields={**first, "response": "a"})]
    with pytest.raises(ConfigError, match="unknown field 'response'"):
        import_rows(bad, "f", KeptRows(tmp_path), decode=None, text=None, has_expert=False)


def test_last_reply_is_the_last_run_of_chosen_tokens() -> None:
    rows = sample_experiences((7,), tokens=True)
    mask = np.array([False, True, True, False, True, True, False])
    stored = StoredRow(row=rows.replace(steps={"mask": mask}), status="verified")
    assert last_reply(stored.row) == (4, 6)
    assert last_reply(rows.replace(steps={"mask": np.zeros(7, bool)})) == (7, 7)
    assert view_row(stored, decode)["version"] == 0
    turns = rows.replace(sequences={"turn": np.array([2])})
    assert StoredRow(row=turns, status="verified").id == "episode-0/0/2"
