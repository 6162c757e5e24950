"""What the panes draw: never wider than they are, never wrong for what a daemon may say, readable without colour."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.text import Text
from tests.tui.conftest import RECORDINGS

from ludus.daemon.messages import (
    EpisodeNews,
    LeagueMember,
    LeagueNews,
    LogLine,
    NodeStatus,
    Payload,
    ProgressNews,
    QueueFill,
    RoomStatus,
    Schedule,
    SinkStatus,
    Status,
    WorkerStatus,
)
from ludus.monitor.message_queue import MessageQueue
from ludus.monitor.run_view import Entry, RunView
from ludus.reports.number_text import duration, short
from ludus.tui.board import head_lines
from ludus.tui.drawing import fit, sparkline, wrap
from ludus.tui.panes import PANES
from ludus.tui.panes.collection import COLLECTION
from ludus.tui.panes.league import LEAGUE
from ludus.tui.panes.log import matches
from ludus.tui.panes.rooms import ROOMS
from ludus.tui.panes.training import SCHEDULE, TRAINING

words = st.text(max_size=40)
numbers = st.floats(allow_nan=False, allow_infinity=False)
counts = st.one_of(st.integers(0, 10**9), st.just(10**400))
metrics = st.dictionaries(
    st.one_of(words, st.sampled_from(["train/loss", "explore/seat_0/reward", "explore/invalid_moves"])),
    numbers,
    max_size=6,
)
queues = st.builds(QueueFill, name=words, length=numbers, capacity=st.none() | numbers)
rooms = st.builds(
    RoomStatus,
    name=words,
    unit=words,
    rate=numbers,
    total=counts,
    dropped=counts,
    load=st.none() | numbers,
    queues=st.lists(queues, max_size=2).map(tuple),
)
statuses = st.builds(
    Status,
    run=words,
    part=words,
    activity=words,
    error=words,
    steps=counts,
    total_steps=counts,
    uptime_s=numbers,
    eta_s=st.none() | numbers,
    steps_per_s=numbers,
    schedule=st.builds(Schedule, new_data=counts, data_to_wait=counts, training_s=numbers, previous_training_s=numbers),
    rooms=st.lists(rooms, max_size=4).map(tuple),
    sinks=st.lists(st.builds(SinkStatus, name=words, error=words), max_size=2).map(tuple),
    workers=st.lists(st.builds(WorkerStatus, name=words, node=words, load=st.none() | numbers), max_size=3).map(tuple),
    nodes=st.lists(st.builds(NodeStatus, name=words, cpus=numbers, load=st.none() | numbers), max_size=2).map(tuple),
    metrics=metrics,
)
members = st.builds(LeagueMember, name=words, mu=numbers, sigma=numbers, games=counts)
leagues = st.builds(
    LeagueNews,
    members=st.lists(members, max_size=4).map(tuple),
    names=st.lists(words, max_size=5).map(tuple),
    counts=st.lists(st.lists(counts, max_size=4).map(tuple), max_size=4).map(tuple),
    scores=st.lists(st.lists(st.none() | numbers, max_size=4).map(tuple), max_size=4).map(tuple),
    exploitability=st.none() | numbers,
)
episodes = st.builds(
    EpisodeNews,
    episode=words,
    game=words,
    task=counts,
    purpose=words,
    seats=st.lists(words, max_size=3).map(tuple),
    rewards=st.lists(numbers, max_size=3).map(tuple),
    lines=st.lists(words, max_size=4).map(tuple),
)


def view_of(*payloads: Payload) -> RunView:
    view, message_queue = RunView(), MessageQueue(clock=lambda: 0.0)
    message_queue.take(payloads)
    view.absorb(message_queue.drain())
    return view


def text_of(lines: list[Text]) -> str:
    return "\n".join(line.plain for line in lines)


@settings(max_examples=30, deadline=None)
@given(statuses, leagues, episodes, metrics, words, st.integers(30, 200))
def test_whatever_a_daemon_says_no_line_is_wider_than_its_pane(
    status: Status, league: LeagueNews, episode: EpisodeNews, progress: dict[str, float], line: str, width: int
) -> None:
    news = [ProgressNews(step=step, metrics=dict(progress)) for step in (1, 2)]
    view = view_of(status, league, episode, *news, LogLine(line=line))
    for pane in PANES:
        for drawn in pane.lines(view, width):
            assert drawn.cell_len <= width, (pane.name, drawn.plain)
            assert "\x1b" not in drawn.plain
    assert all(drawn.cell_len == width for drawn in head_lines(view, width))


@pytest.mark.parametrize("name", ["connect_four", "tic_tac_toe"])
def test_of_a_real_run_nothing_is_cut_off_from_fifty_columns_on(name: str) -> None:
    view, message_queue = RunView(), MessageQueue()
    message_queue.take_lines((RECORDINGS / f"{name}.jsonl").read_bytes().splitlines())
    view.absorb(message_queue.drain())
    for pane in PANES:
        for width in range(50, 201, 10):
            assert all(line.cell_len <= width for line in pane.draw(view, width)), (pane.name, width)


def test_a_room_at_rest_is_marked_by_a_sign_and_red_and_a_full_queue_by_a_word() -> None:
    moving = RoomStatus(name="explore", unit="episodes", rate=12.0, total=40, load=0.5)
    standing = RoomStatus(
        name="train",
        unit="updates",
        rate=0.0,
        total=3,
        dropped=2,
        load=0.0,
        queues=(QueueFill(name="batches", length=8, capacity=8),),
    )
    lines = ROOMS.draw(view_of(Status(stage="TRAINING", rooms=(moving, standing))), 78)
    assert lines[1].plain.startswith("● explore")
    assert "12/s episodes" in lines[1].plain
    assert lines[2].plain.startswith("○ train")
    assert any("red" in str(span.style) for span in lines[2].spans)
    assert "8 of 8 full" in lines[3].plain
    paused = ROOMS.draw(view_of(Status(stage="PAUSED", rooms=(standing,))), 78)
    assert not any("red" in str(span.style) for span in paused[1].spans)


def test_a_sink_that_was_switched_off_says_why() -> None:
    sink = SinkStatus(name="wandb", error="no answer for 10 s", dropped=4)
    room = RoomStatus(name="train", unit="updates", rate=1.0, total=1)
    drawn = text_of(ROOMS.draw(view_of(Status(stage="TRAINING", rooms=(room,), sinks=(sink,))), 78))
    assert "✗ wandb: off: no answer for 10 s" in drawn


def test_nodes_of_a_cluster_stand_under_the_rooms_with_their_workers_and_loads() -> None:
    nodes = (
        NodeStatus(name="10.0.0.1", workers=1, cpus=8, free_cpus=6, gpus=1, load=0.5),
        NodeStatus(name="10.0.0.2", cpus=4, free_cpus=4),
    )
    workers = (
        WorkerStatus(name="explorer-0", node="10.0.0.1", load=0.97, restarts=2),
        WorkerStatus(name="trainer", is_silent=True),
    )
    room = RoomStatus(name="train", unit="updates", rate=1.0, total=1)
    lines = [
        line.plain.strip()
        for line in ROOMS.draw(view_of(Status(stage="TRAINING", rooms=(room,), nodes=nodes, workers=workers)), 78)
    ]
    assert lines[2:5] == [
        "▪ 10.0.0.1: load 50%, 2 of 8 CPU taken, 1 of 1 GPU",
        "└ explorer-0: load 97%, started again 2×",
        "▪ 10.0.0.2: load not known, 0 of 4 CPU taken",
    ]
    assert lines[5].startswith("└ trainer: load not known, no sign of life, on no node")
    local = ROOMS.draw(view_of(Status(stage="TRAINING", rooms=(room,), workers=workers)), 78)
    assert len(local) == 2


def test_the_schedule_compares_with_what_is_waited_for_and_with_the_cycle_before() -> None:
    schedule = Schedule(cycles=3, new_data=500, data_to_wait=1000, training_s=10, previous_training_s=40, cycle_s=75)
    drawn = text_of(SCHEDULE.draw(view_of(Status(stage="WAITING FOR DATA", schedule=schedule)), 78))
    assert "500 of 1000  50%" in drawn
    assert "0:10, before 0:40" in drawn
    assert "1:15, none before to compare" in drawn
    assert "cycles done   3" in drawn


def test_every_metric_appears_known_or_not_and_terms_stand_under_the_loss() -> None:
    values = {
        "train/loss": 0.5,
        "train/ppo_clip": 0.1,
        "train/entropy": 1.25,
        "train/invented": 3.0,
        "psro/nash_conv": 0.5,
        "evaluate/random/score": 0.75,
        "odd": 7.0,
    }
    view = view_of(Status(stage="TRAINING"), ProgressNews(step=1, metrics=values))
    lines = [line.plain for line in TRAINING.draw(view, 60)]
    loss = next(number for number, line in enumerate(lines) if line.startswith("loss"))
    assert lines[loss + 1].startswith("  ppo_clip")
    drawn = "\n".join(lines)
    for expected in ("entropy", "1.25", "invented", "NashConv (exact)", "random/score", "75.0%", "odd"):
        assert expected in drawn


def test_collection_shows_format_success_and_rewards_on_their_side_of_zero_once() -> None:
    values = {"explore/format_success": 0.75, "explore/invalid_moves": 0.125, "explore/length": 7.0}
    for prefix in ("explore/", "explore/open_spiel:x/"):
        values |= {f"{prefix}seat_0/reward": 1.0, f"{prefix}seat_0/wins": 0.9, f"{prefix}seat_1/reward": -1.0}
    lines = [line.plain for line in COLLECTION.draw(view_of(ProgressNews(step=1, metrics=values)), 70)]
    assert lines[0].split() == ["format", "success", "75.0%", "▄"]
    assert lines[1].split() == ["invalid", "moves", "12.5%", "▄"]
    first, second = (next(line for line in lines if line.startswith(f"seat {seat}")) for seat in (0, 1))
    assert "│████" in first
    assert "won  90%" in first
    assert "████│" in second
    assert len([line for line in lines if "seat 0" in line]) == 1


def test_the_ladder_shows_what_is_sure_and_what_is_not_and_the_tables_who_met_whom() -> None:
    ladder = (
        LeagueMember(name="a", mu=30.0, sigma=1.0, games=9),
        LeagueMember(name="b", mu=20.0, sigma=3.0, games=1200),
    )
    league = LeagueNews(
        members=ladder,
        names=("a", "b"),
        counts=((0, 4), (4, 0)),
        scores=((None, 0.75), (0.25, None)),
        exploitability=0.5,
        exploitability_kind="exact",
    )
    lines = [line.plain for line in LEAGUE.draw(view_of(league), 70)]
    assert lines[0].startswith("exploitability 0.500 (exact)")
    assert lines[2].count("█") > lines[3].count("█")
    assert lines[3].count("▒") > lines[2].count("▒")
    assert "30.0 ± 2.0" in lines[2]
    assert any(line.split() == ["1", "a", "·", "75"] for line in lines)
    assert any(line.split() == ["1", "a", "███"] for line in lines)


def test_elo_and_trueskill_stand_whole_beside_their_bars() -> None:
    ladder = (
        LeagueMember(name="main@5", mu=40.3, sigma=1.0, games=160, elo=1389.4, elo_error=80.4),
        LeagueMember(name="main@1", mu=30.6, sigma=1.0, games=200, elo=946.1, elo_error=59.7),
    )
    for width in (50, 70):
        head, *lines = [line.plain for line in LEAGUE.draw(view_of(LeagueNews(members=ladder)), width)]
        assert head.endswith("games TrueSkill")
        assert lines[0].endswith("1389 ± 158      160      40.3")
        assert lines[1].endswith(" 946 ± 117      200      30.6")
        assert {len(line) for line in (head, *lines)} == {width}


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ("", True),
        ("LOSS", True),
        ("loss nan", True),
        ("-loss", False),
        ("warning", True),
        ("error", False),
        ("-error", True),
    ],
)
def test_a_filter_wants_all_words_and_none_with_a_minus(wanted: str, fits: bool) -> None:
    assert matches(Entry(0.0, "warning", "loss is nan"), wanted) is fits


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (12, "12"),
        (9999, "9999"),
        (12345, "12.3k"),
        (4_560_000, "4.56M"),
        (0.1534, "0.153"),
        (-0.000012, "-1e-5"),
        (1.2, "1.20"),
        (99.96, "100"),
        (1e20, "1e20"),
        (10**400, "–"),
    ],
)
def test_numbers_are_short(number: float, text: str) -> None:
    assert short(number) == text
    assert len(text) <= 6


def test_durations_widths_and_curves() -> None:
    assert [duration(seconds) for seconds in (7, 754, 11232, 443220)] == ["0:07", "12:34", "3:07:12", "5d 03:07"]
    assert fit("a long name of a policy", 10) == "a long…icy"
    assert fit("盤面盤面盤面", 6) in ("盤面…盤", "盤面… ", "盤面…面")
    assert sparkline([0, 1, 2, 3], 3).plain == "▁▅█"
    assert wrap("aaa bbb ccc", 8, 2) == ["aaa bbb", "  ccc"]


def test_every_pane_is_in_the_help_and_in_the_docs() -> None:
    from ludus.tui.commands import KEYS, help_text

    text, page = help_text(90).plain, (Path(__file__).parents[2] / "docs" / "tui.md").read_text()
    for number, pane in enumerate(PANES, start=1):
        assert f"{number} {pane.title}: {pane.help}" in text
        assert f"**{number} {pane.title}.**" in page
    for keys, _ in KEYS:
        assert f"| {keys} |" in page
