"""A run directory as notifications: of a run that is over, of one that is being written, of one that is damaged."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from ludus import parse_config
from ludus.daemon.messages import EpisodeNews, LeagueNews, Payload, PolicyPublished, ProgressNews, Status, Warned
from ludus.daemon.run_watch import JsonlTail, RunWatch, event_news
from ludus.daemon.watches import played_since
from ludus.errors import StorageError
from ludus.runs.staged import make_run
from ludus.storage.catalog import Catalog
from ludus.storage.jsonl import JsonlWriter
from ludus.storage.run_directory import RunDirectory
from ludus.telemetry import ROOMS

KUHN = """
name: kuhn
games: [open_spiel:kuhn_poker]
population: {}
telemetry: {tensorboard: false, every_s: 0}
"""
TINY = """
name: tiny
games: [open_spiel:tic_tac_toe]
topology: split
policy: {network: {kind: mlp, hidden: [8]}}
explore: {games_in_flight: 8}
train: {steps: 200, batch_episodes: 8, minibatch: 64, epochs: 1}
evaluate: {against: [random], games: 2, final_games: 2}
telemetry: {tensorboard: false, every_s: 0}
"""


def kinds(news: Iterable[Payload]) -> set[type[Payload]]:
    return {type(payload) for payload in news}


def test_a_population_that_is_over_is_shown_as_it_was_left(tmp_path: Path) -> None:
    make_run(parse_config(KUHN, "kuhn.yaml"), tmp_path / "run").run_to_end()
    watch = RunWatch(tmp_path / "run")
    news = list(watch.poll())
    assert {ProgressNews, PolicyPublished, LeagueNews, Status} <= kinds(news)
    status = next(each for each in news if isinstance(each, Status))
    assert (status.stage, status.unit) == ("DONE", "generations")
    assert status.metrics["psro/nash_conv"] is not None
    (league,) = [payload for payload in news if isinstance(payload, LeagueNews)]
    assert league.exploitability is not None
    assert kinds(watch.poll()) == {Status}  # nothing has happened since


def test_a_run_that_is_over_shows_its_league_and_its_last_episode(tmp_path: Path) -> None:
    make_run(parse_config(TINY, "tiny.yaml"), tmp_path / "run").run_to_end()
    news = list(RunWatch(tmp_path / "run").poll())
    (episode,) = [payload for payload in news if isinstance(payload, EpisodeNews)]
    assert episode.plies > 0
    assert any("seat 0 plays" in line for line in episode.lines)
    (league,) = [payload for payload in news if isinstance(payload, LeagueNews)]
    assert {member.name for member in league.members} >= {"random"}
    assert len(league.counts) == len(league.names)
    status = next(each for each in news if isinstance(each, Status))
    assert (status.stage, status.total_steps) == ("DONE", 200)
    assert news.index(status) < news.index(episode)  # to draw it the game has to be loaded
    rooms = {room.name: room for room in status.rooms}
    assert list(rooms) == list(ROOMS)
    assert rooms["train"].total == status.update == status.schedule.updates
    assert rooms["explore"].total >= status.episodes > 0
    assert rooms["storage"].load_total is not None
    assert status.uptime_s > status.schedule.training_s > 0
    assert status.steps >= 200
    segments = sorted((tmp_path / "run" / "episodes").glob("*.arrow"))
    segments[-1].write_bytes(b"rotten")
    assert EpisodeNews not in kinds(RunWatch(tmp_path / "run").poll())


def test_what_is_no_run_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="not a run directory"):
        list(RunWatch(tmp_path).poll())


def test_new_lines_are_read_once_across_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    tail = JsonlTail(path)
    assert tail.read() == []
    writer = JsonlWriter(path, most_bytes=200)
    seen = []
    for number in range(60):
        writer.write({"number": number})
        if number % 7 == 0:
            seen += tail.read()
    seen += tail.read()
    assert [record["number"] for record in seen] == list(range(60))
    with path.open("ab") as file:
        file.write(b'garbage\n{"number": 60}\n{"number": 6')
    assert tail.read() == [{"number": 60}]
    with path.open("ab") as file:
        file.write(b"1}\n")
    assert tail.read() == [{"number": 61}]


def test_events_become_messages() -> None:
    lost = event_news({"event": "worker_lost", "time": 1.0, "worker": "trainer", "log_tail": "long"})
    assert isinstance(lost, Warned)
    assert lost.message == "worker lost: worker trainer"
    assert isinstance(event_news({"event": "published", "policy": "main@3", "step": 9}), PolicyPublished)
    assert json.loads(event_news({"event": "started", "resumed": False}).model_dump_json())["event"] == "started"


def test_games_between_two_standings_are_told_by_pair() -> None:
    before = LeagueNews(members=(), names=("a", "b"), counts=((0, 2), (2, 0)), scores=((None, 0.5), (0.5, None)))
    after = LeagueNews(
        members=(),
        names=("b", "a", "c"),
        counts=((0, 6, 0), (6, 0, 1), (0, 1, 0)),
        scores=((None, 0.75, None), (0.25, None, 1.0), (None, 0.0, None)),
    )
    found = {(news.first, news.second): (news.games, news.score) for news in played_since(before, after)}
    assert found == {("a", "b"): (4, pytest.approx(0.125)), ("c", "a"): (1, 0.0)}


def test_the_rooms_of_a_killed_run_are_what_its_checkpoint_counts(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.create(TINY)
    run.events.write_text(
        '{"time": 100, "event": "opened"}\n{"time": 160, "event": "rooms", "rooms": [], "schedule": 1}\n'
    )
    with Catalog(run.catalog) as catalog, catalog.transaction():
        catalog.set_cursor("progress", {"update": 3, "episodes": 24, "version": 3})
    status = RunWatch(run.path).status()
    assert (status.stage, status.activity, status.uptime_s) == ("STOPPED", "its process was killed", 60.0)
    assert {room.name: room.total for room in status.rooms} == {"explore": 24, "train": 3, "policies": 3}
