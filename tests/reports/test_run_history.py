"""What lists say of a run is what all its lines say, although few of them are read."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Iterable
from heapq import merge
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reports.made_runs import make_run

from ludus.daemon.run_watch import RunWatch
from ludus.reports.run_facts import Clock, read_progress, read_run_facts
from ludus.reports.run_history import TURNS, read_history, time_of
from ludus.storage.catalog import Catalog
from ludus.storage.jsonl import read_jsonl, rotated
from ludus.storage.run_directory import RunDirectory

KINDS = (*TURNS, "published", "metrics", "metrics", "metrics", "score", "torn", "garbage")
LINES = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 5)), max_size=40)


def _write(run: RunDirectory, lines: Iterable[tuple[str, int]], cut: int) -> None:
    texts: dict[Path, list[bytes]] = {run.events: [], run.metrics: [], rotated(run.metrics): []}
    at = 1000.0
    for number, (kind, passed) in enumerate(lines):
        at += passed
        place = run.events if kind in (*TURNS, "published") else rotated(run.metrics) if number < cut else run.metrics
        record: dict[str, Any] = {"time": at, "step": number}
        if kind in (*TURNS, "published"):
            record = {"time": at, "event": kind}
        elif kind == "score":
            record["evaluate/random/score"] = number / 100
        else:
            record["train/loss"] = 0.5
        text = b"\xff[\n" if kind == "garbage" else json.dumps(record, separators=(",", ":")).encode() + b"\n"
        texts[place].append(text[:-9] + b"\n" if kind == "torn" else text)
    for path, parts in texts.items():
        path.write_bytes(b"".join(parts) + (b'{"time":9999,"torn' if path == run.metrics else b""))


def _summary(records: Iterable[dict[str, Any]]) -> tuple[Any, ...]:
    clock, scores, turn = Clock(), list[float](), None
    for record in records:
        clock.see(record)
        turn = record if record.get("event") in TURNS else turn
        scores += [record["evaluate/random/score"]] if "evaluate/random/score" in record else []
    clock.stop()
    return clock.began, clock.last, clock.wall_s, clock.starts, scores, turn


@given(LINES, st.integers(0, 40))
def test_the_few_lines_tell_what_all_of_them_tell(lines: list[tuple[str, int]], cut: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = RunDirectory(Path(folder))
        _write(run, lines, cut)
        whole = merge(read_jsonl(run.events), read_jsonl(run.metrics), key=time_of)
        assert _summary(read_history(run)) == _summary(whole)


def test_a_run_without_files_has_no_history(tmp_path: Path) -> None:
    assert list(read_history(RunDirectory(tmp_path))) == []


def test_progress_is_read_beside_a_writer_after_its_end_and_not_of_what_is_damaged(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with Catalog(run.catalog) as catalog:
        with catalog.transaction():
            catalog.set_cursor("progress", {"steps": 3})
        assert read_progress(run) == {"steps": 3}  # it is in the log of the file still
    assert read_progress(run) == {"steps": 3}
    locked = sqlite3.connect(run.catalog)
    locked.execute("PRAGMA journal_mode = DELETE")
    locked.execute("BEGIN EXCLUSIVE")
    assert read_progress(run) in ({}, {"steps": 3})  # at once, whoever has it locked
    locked.close()
    run.catalog.write_bytes(b"no database" * 999)
    assert read_progress(run) == {}
    run.catalog.unlink()
    assert read_progress(run) == {}


@pytest.mark.parametrize("oracle", ["exact", "learned"])
def test_generations_of_a_population_are_counted_however_it_learns(tmp_path: Path, oracle: str) -> None:
    config = "name: k\ngames: [open_spiel:kuhn_poker]\npopulation: {oracle: %s, stop: {generations: 6}}\n"
    run = make_run(tmp_path / "run", config % oracle)
    lines = [{"time": 1.0 + step, "step": step, "psro/cpu_s": 0.5} for step in range(4)]
    steps = {"time": 9.0, "step": 98_304, "loop/steps_per_s": 1.0}  # of a learner, in decisions
    run.metrics.write_text("".join(json.dumps(line) + "\n" for line in (*lines, steps)))
    facts = read_run_facts(run.path)
    assert (facts.steps, facts.total_steps, facts.unit) == (3, 6, "generations")
    assert RunWatch(run.path, pictures=False).status().steps == 3
