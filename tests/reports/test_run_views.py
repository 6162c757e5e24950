"""League, tasks and refusals of a run as plain values, also where its catalog or its checkpoints are damaged."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from tests.reports.made_runs import CONFIG, episode, make_run, record, record_rows, ref, rows_of

from ludus.config import LeagueConfig, RunConfig, load_config
from ludus.league import Pool
from ludus.monitor.league_view import read_league
from ludus.monitor.refused_view import read_refused
from ludus.monitor.task_view import read_tasks
from ludus.records import EpisodeId, Match
from ludus.reports.episode_index import EpisodeIndex
from ludus.storage.catalog import Catalog
from ludus.storage.run_directory import RunDirectory


def opened(folder: Path) -> tuple[RunDirectory, RunConfig]:
    run = make_run(folder, CONFIG)
    return run, load_config(run.config)


def test_a_league_has_intervals_and_unknown_cells(tmp_path: Path) -> None:
    run, config = opened(tmp_path / "run")
    main, random, mcts = (ref(name) for name in ("main", "random", "mcts-25"))
    pool = Pool(LeagueConfig(), main)
    for number in range(20):
        seats = (main, random) if number % 2 else (random, mcts)
        pool.record(Match(id=EpisodeId(str(number)), game="g", seats=seats, returns=(1.0, -1.0)))
    with Catalog(run.catalog) as catalog:
        pool.write(catalog)
    view = read_league(run, config)
    assert (view["kind"], view["problems"]) == ("league", [])
    names, payoffs = [row["policy"] for row in view["ladder"]], view["payoffs"]
    assert names == ["main", "random", "mcts-25"]
    assert all(row["elo_margin"] > 0 for row in view["ladder"])
    assert payoffs["mean"][0][1] == 1.0
    low, high = payoffs["interval"][0][1]
    assert 0.6 < low < 1.0
    assert high == pytest.approx(1.0)
    assert payoffs["mean"][0][2] is payoffs["interval"][0][2] is None, "they never met"
    assert payoffs["games"][0][1] == 10
    msgspec.json.encode(view)


def test_a_damaged_catalog_is_named(tmp_path: Path) -> None:
    run, config = opened(tmp_path / "run")
    run.catalog.write_bytes(b"not a database" * 100)
    view = read_league(run, config)
    assert view["kind"] == "none"
    assert "catalog.sqlite" in view["problems"][0]
    refused = read_refused(run, config)
    assert refused["counts"] == {}
    assert refused["problems"]


def test_a_run_without_games_has_no_league(tmp_path: Path) -> None:
    assert read_league(*opened(tmp_path / "run"))["kind"] == "none"


def test_tasks_show_the_rate_over_versions_and_the_hardest_first(tmp_path: Path) -> None:
    run, config = opened(tmp_path / "run")
    attempts = [
        episode(
            number,
            seats=(f"main@{version}",),
            returns=(float(row == 1 and version > 0),),
            moves=(1,),
            game="tasks:sums",
            inputs={"row": row, "prompt": 'the "row": 9 of it'},
        )
        for number, (version, row) in enumerate((version, row) for version in range(3) for row in (1, 2))
    ]
    record(run, [*attempts, episode(90)])
    view = read_tasks(run, config, EpisodeIndex(run.path))
    (sums,) = view["sets"]
    assert (sums["name"], sums["attempts"], sums["solved"], sums["never_solved"]) == ("sums", 6, 2, 1)
    assert [(task["row"], task["rate"]) for task in sums["tasks"]] == [(2, 0.0), (1, pytest.approx(2 / 3))]
    assert [each["rate"] for each in sums["over_time"].values()] == [0.0, 0.5, 0.5]
    assert view["versions"] == [0, 1, 2]
    assert "no checkpoint" in view["problems"][0], "what the curriculum believes is not known, and the rest is there"


def test_refusals_are_counted_over_tasks_with_samples(tmp_path: Path) -> None:
    run, config = opened(tmp_path / "run")
    rows = rows_of([episode(number) for number in range(10)])
    reasons = ["stale"] * 8 + ["<script>"] * 2
    why = {"reason": np.array(reasons, object), "detail": np.array(["\u202eevil"] * 10, object)}
    record_rows(run, rows.replace(sequences=why), "refused")
    view = read_refused(run, config)
    assert {name: sum(counts) for name, counts in view["over_tasks"]["counts"].items()} == {"stale": 8, "<script>": 2}
    assert [sample["reason"] for sample in view["samples"]] == ["<script>"] * 2 + ["stale"] * 5
    (path,) = run.refused.glob("*.arrow")
    path.write_bytes(path.read_bytes()[:100])
    torn = read_refused(run, config)
    assert torn["samples"] == []
    assert "1 damaged" in torn["problems"][0]
