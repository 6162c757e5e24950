"""Games that were recorded on request: each once, from several processes, and never lost when the run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.league.test_ladder import make_pool

from ludus.league.matchmaking.recorded import RecordedGame, read_recorded, record_games
from ludus.reports.ladder import standing_of_run
from ludus.storage.catalog import Catalog

WRITER = """
import sys
from pathlib import Path
from ludus.league.matchmaking.recorded import RecordedGame, record_games
path, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
for seed in range(first, last):
    record_games(path, [RecordedGame(game="g", seats=("a", "b"), returns=(1.0, -1.0), seed=seed, greedy=False)])
    if seed == first:
        print("writing", flush=True)
"""


def games(seeds: range, *, greedy: bool = False) -> list[RecordedGame]:
    seats = ("main@0", "random")
    return [RecordedGame(game="g", seats=seats, returns=(1.0, -1.0), seed=seed, greedy=greedy) for seed in seeds]


def test_a_game_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "recorded.sqlite"
    assert read_recorded(path) == []
    assert record_games(path, games(range(5))) == 5
    assert record_games(path, games(range(3, 8))) == 3
    assert record_games(path, games(range(2), greedy=True)) == 2, "other moves, another game"
    assert len(read_recorded(path)) == 10


def test_a_run_that_goes_on_keeps_them_and_its_trueskill_never_knew_them(tmp_path: Path) -> None:
    pool = make_pool()
    with Catalog(tmp_path / "catalog.sqlite") as catalog:
        pool.write(catalog)
        before = {row.policy: row for row in standing_of_run(catalog).rows}
        record_games(tmp_path / "recorded.sqlite", games(range(20)))
        pool.write(catalog)
        after = {row.policy: row for row in standing_of_run(catalog).rows}
    assert after["main@0"].wins == before["main@0"].wins + 20
    assert (after["main@0"].recorded, after["main@1"].recorded) == (20, 0)
    assert (after["main@0"].elo or 0) - (after["random"].elo or 0) > (before["main@0"].elo or 0) - (
        before["random"].elo or 0
    )
    assert all((after[name].mu, after[name].sigma) == (row.mu, row.sigma) for name, row in before.items())


def test_several_processes_record_at_once_and_a_killed_one_loses_no_game_that_it_recorded(tmp_path: Path) -> None:
    path = tmp_path / "recorded.sqlite"
    command = [sys.executable, "-c", WRITER, str(path)]
    endless = subprocess.Popen([*command, "1000", "1000000"], stdout=subprocess.PIPE)
    assert endless.stdout is not None
    assert endless.stdout.readline() == b"writing\n"
    both = [subprocess.Popen([*command, first, last]) for first, last in (("0", "40"), ("20", "60"))]
    assert [process.wait(timeout=120) for process in both] == [0, 0]
    os.kill(endless.pid, signal.SIGKILL)
    endless.communicate()
    found = read_recorded(path)
    assert len(found) >= 61
    assert (
        record_games(path, [RecordedGame(game="g", seats=("a", "b"), returns=(1.0, -1.0), seed=1000, greedy=False)])
        == 0
    )
