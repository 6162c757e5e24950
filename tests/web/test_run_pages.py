"""League, episodes, tokens, tasks and refusals over a real socket: of a whole run, and of one with damaged files."""

from __future__ import annotations

import json
import time
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from tests.reports.made_runs import episode, make_run, record, record_rows, rows_of
from tests.web.conftest import Serve, Server

from ludus.storage.run_directory import RunDirectory
from ludus.storage.traces import TracedSequence, TraceLog, encode_traces, packed

ADDRESS = "/api/runs/a%2Fmade"
EVIL = "<script>alert(1)</script>\u202e\ufffd"


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    made = make_run(tmp_path / "runs" / "a" / "made")
    played = [episode(number) for number in range(5)]
    task = {"seats": ("main@1",), "returns": (1.0,), "moves": (1,), "game": "tasks:sums", "inputs": {"row": 2}}
    record(made, [*played, episode(5, move_texts=("2+2?",), replies=(EVIL,), **task)])
    record_rows(made, rows_of(played))
    why = {
        "reason": np.array(["stale"], object),
        "detail": np.array([EVIL], object),
    }
    record_rows(made, rows_of([episode(7)]).replace(sequences=why), "refused")
    columns = {"action": np.arange(3), "mask": np.ones(3), "logp": np.full(3, -1.0), "trainer_logp": np.full(3, np.nan)}
    log = TraceLog(made.traces, keep_bytes=1_000_000)
    log.add(1, encode_traces([TracedSequence(episode="e00002", seat=0, columns=packed(columns))]))
    log.close()
    return made


@pytest.fixture
def server(run: RunDirectory, serve: Serve) -> Server:
    found = serve(run.path.parents[1])
    found.enter()
    return found


def test_episodes_are_searched_and_opened(server: Server) -> None:
    page = server.get(f"{ADDRESS}/episodes?policy=main&result=won&limit=2&offset=1")
    assert [row["task"] for row in page["rows"]] == [4, 3]
    assert (page["total"], page["recorded"], page["rows"][0]["result"]) == (6, 6, "won")
    one = server.get(f"{ADDRESS}/episodes/e00002")
    assert one["board"]["frames"][-1]["cells"] == "xxxoo...."
    assert [row["id"] for row in one["siblings"]] == ["e00002", "e00003"]
    assert server.ask(f"{ADDRESS}/episodes/nobody").status == 404
    assert server.ask(f"{ADDRESS}/episodes?min_length=many").status == 400


def test_a_list_prepares_for_one_of_it_being_opened(server: Server, run: RunDirectory) -> None:
    reader = server.site.runs.of(run)
    assert not reader.sequences._segments["experiences"]
    server.get(f"{ADDRESS}/episodes")
    end = time.monotonic() + 30
    while not reader.sequences._segments["experiences"] and time.monotonic() < end:
        server.get(f"{ADDRESS}/episodes")
    assert reader.sequences._segments["experiences"]


def test_tokens_have_null_where_a_number_is_not_finite(server: Server) -> None:
    tokens = server.get(f"{ADDRESS}/episodes/e00002/tokens?offset=1")
    assert tokens["columns"]["trainer_logp"] == [None, None]
    assert (tokens["total"], tokens["update"], tokens["texts"]) == (3, 1, None)
    assert "advantage" not in tokens["columns"], "not recorded is absent"
    assert server.ask(f"{ADDRESS}/episodes/e00002/tokens?sequence=9").status == 404


def test_hostile_text_arrives_as_text(server: Server) -> None:
    one = server.get(f"{ADDRESS}/episodes/e00005")
    assert one["turns"][1]["text"].startswith("<script>alert(1)</script>")
    answer = server.ask(f"{ADDRESS}/episodes/e00005")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_league_tasks_refused_and_matches(server: Server) -> None:
    assert server.get(f"{ADDRESS}/league")["kind"] == "none"
    (sums,) = server.get(f"{ADDRESS}/tasks")["sets"]
    assert (sums["name"], sums["tasks"][0]["row"], sums["rate"]) == ("sums", 2, 1.0)
    refused = server.get(f"{ADDRESS}/refused")
    assert refused["samples"][0]["reason"] == "stale"
    assert server.get(f"{ADDRESS}/matches?row=main%403&column=random%400")["total"] == 5


def test_what_is_found_can_be_taken_along(server: Server) -> None:
    answer = server.ask(f"{ADDRESS}/episodes.jsonl?policy={quote('main@3')}&limit=2")
    lines = [json.loads(line) for line in answer.body.splitlines()]
    assert [line["id"] for line in lines] == ["e00004", "e00003"]
    assert lines[0]["moves"][0] == [0, 0, 0]
    assert "attachment" in answer.headers["content-disposition"]
    assert server.ask(f"{ADDRESS}/episodes.pgn").body == b"", "none of these is chess"


def test_damaged_files_are_named_and_the_rest_is_shown(server: Server, run: RunDirectory) -> None:
    run.catalog.write_bytes(b"no database" * 999)
    for path in run.experiences.glob("*.arrow"):
        path.write_bytes(path.read_bytes()[:-9])
    (run.traces / "000000000009.frames").write_bytes(b"LTR1 torn")
    assert "catalog" in server.get(f"{ADDRESS}/league")["problems"][0]
    assert server.get(f"{ADDRESS}/refused")["samples"]
    assert server.get(f"{ADDRESS}/episodes/e00001")["sequences"] == []
    assert server.get(f"{ADDRESS}/episodes/e00002")["sequences"][0]["status"] == "traced"


def test_a_run_that_is_deleted_meanwhile_is_not_found(server: Server, run: RunDirectory) -> None:
    assert server.get(f"{ADDRESS}/episodes")["total"] == 6
    run.format.unlink()
    assert server.ask(f"{ADDRESS}/episodes").status == 404


def test_an_unchanged_answer_is_not_sent_twice(server: Server) -> None:
    tag = server.ask(f"{ADDRESS}/episodes").headers["etag"]
    assert server.ask(f"{ADDRESS}/episodes", headers={"if-none-match": tag}).status == 304
