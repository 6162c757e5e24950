"""One episode: its boards, what was said, and its tokens with what the trainer thought of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.reports.made_runs import episode, make_run, record_rows, rows_of

from ludus.reports.episode_view import view_episode, view_tokens
from ludus.reports.sequence_finder import SequenceFinder
from ludus.storage.run_directory import RunDirectory
from ludus.storage.traces import TracedSequence, TraceLog, encode_traces, packed


def trace(run: RunDirectory, update: int, name: str, length: int = 3, **columns: object) -> None:
    own = {"action": np.arange(length), "mask": np.ones(length), "logp": np.full(length, -2.0)}
    more = {"trainer_logp": np.full(length, -1.0), "advantage": np.full(length, 0.5), **columns}
    traced = TracedSequence(episode=name, seat=0, group="g", columns=packed({**own, **more}))
    log = TraceLog(run.traces, keep_bytes=1_000_000)
    log.add(update, encode_traces([traced]))
    log.close()


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    made = make_run(tmp_path / "run")
    record_rows(made, rows_of([episode(number) for number in range(4)]))
    return made


def test_a_board_has_a_frame_for_each_move_and_what_is_known_of_it(run: RunDirectory) -> None:
    trace(run, 7, "e00001")
    view = view_episode(episode(1), SequenceFinder(run.path).find("e00001"))
    assert view["board"]["kind"] == "tic_tac_toe"
    assert [frame["cells"] for frame in view["board"]["frames"]][-1] == "xxxoo...."
    assert [each["ply"] for each in view["decisions"]] == [0, 2, 4]
    first = view["decisions"][0]
    assert first["advantage"] == 0.5
    assert first["ratio"] == pytest.approx(np.exp(first["trainer_logp"] - first["logp"]))
    assert view["sequences"][0]["update"] == 7


def test_what_was_not_recorded_is_absent(run: RunDirectory) -> None:
    (view,) = SequenceFinder(run.path).find("e00002")
    tokens = view_tokens(view, None)
    assert tokens["columns"].keys() == {"action", "mask", "logp", "value", "reward", "version"}
    assert tokens["texts"] is None
    assert tokens["update"] is None
    assert SequenceFinder(run.path).find("nobody") == []


def test_a_token_of_a_megabyte_is_cut_on_its_way(run: RunDirectory) -> None:
    (view,) = SequenceFinder(run.path).find("e00002")
    texts = view_tokens(view, lambda tokens, marks: "x" * 1_000_000)["texts"]
    assert {len(text) for text in texts} == {301}


def test_tokens_come_in_parts_with_ratio_and_kl(run: RunDirectory) -> None:
    trace(run, 1, "e00003", ref_logp=np.full(3, -1.5))
    (view,) = SequenceFinder(run.path).find("e00003")
    part = view_tokens(view, lambda tokens, marks: f"<{tokens[0]}>", offset=1, limit=1)
    assert (part["offset"], part["total"], part["texts"]) == (1, 3, ["<1>"])
    whole = view.columns["logp"]
    assert part["scales"]["logp"] == pytest.approx([whole.min(), whole.max()])
    assert part["scales"]["ref_logp"] == [-1.5, -1.5]
    assert "mask" not in part["scales"]
    logp = part["columns"]["logp"][0]
    assert part["columns"]["ratio"][0] == pytest.approx(np.exp(-1.0 - logp), rel=1e-5)
    assert part["columns"]["kl"][0] == pytest.approx(np.exp(-0.5) - 1 + 0.5, rel=1e-5)


def test_a_trace_outlives_its_row_and_the_newest_update_counts(run: RunDirectory) -> None:
    finder = SequenceFinder(run.path)
    assert finder.find("gone") == []
    trace(run, 1, "gone", length=5)
    trace(run, 2, "gone", length=5, advantage=np.full(5, 2.0))
    (view,) = finder.find("gone")
    assert (view.status, view.update, view.length) == ("traced", 2, 5)
    assert view.columns["advantage"].tolist() == [2.0] * 5
    assert finder.traced_episodes(10) == ["gone"]


def test_a_refused_row_says_why(run: RunDirectory) -> None:
    rows = rows_of([episode(9)])
    why = {"reason": np.array(["stale"], object), "detail": np.array(["too old"], object)}
    record_rows(run, rows.replace(sequences=why), "refused")
    (view,) = SequenceFinder(run.path).find("e00009")
    assert (view.status, view.reason) == ("refused", "stale")


def test_damaged_segments_and_traces_are_passed_over(run: RunDirectory) -> None:
    trace(run, 1, "e00001")
    for path in (*run.experiences.glob("*.arrow"), *run.traces.glob("*")):
        path.write_bytes(path.read_bytes()[:-20])
    assert SequenceFinder(run.path).find("e00001") == []


def test_words_are_turns_by_role() -> None:
    talk = episode(
        1,
        moves=(1, 0),
        move_texts=("[4]", "?"),
        replies=("I play [4]", "\ud800 <script>"),
        game="textarena:TicTacToe-v0",
    )
    view = view_episode(talk, [])
    assert view["board"] is None
    assert [(turn["seat"], turn["move"], turn["accepted"]) for turn in view["turns"]] == [
        (0, "[4]", True),
        (1, "?", False),
    ]
    attempt = episode(
        2, seats=("main@1",), returns=(1.0,), moves=(1,), move_texts=("2+2?",), replies=("4",),
        game="tasks:sums", inputs={"row": 5}, rewards={"exact": 1.0},
    )  # fmt: skip
    view = view_episode(attempt, [])
    assert [(turn["role"], turn["text"]) for turn in view["turns"]] == [("told", "2+2?"), ("said", "4")]
    assert (view["row"], view["rewards"]) == (5, {"exact": 1.0})
