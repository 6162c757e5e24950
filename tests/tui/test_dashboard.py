"""The real app without a terminal: keys, panes, commands and their replies, sizes, the palette."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from pathlib import Path

import pytest
from tests.tui.conftest import repaint, run, screen_text, showing, until
from textual.pilot import Pilot

from ludus.daemon.messages import (
    COMMANDS,
    Ack,
    Export,
    Failure,
    LogLine,
    MakeCheckpoint,
    Pause,
    Payload,
    Resume,
    Set,
    Status,
    Stop,
)
from ludus.monitor.message_queue import MessageQueue, Reply
from ludus.monitor.source import Connection, RecordedSource, Source, refused
from ludus.tui.app import Dashboard
from ludus.tui.commands import ORDERS
from ludus.tui.pane import LogPane, Pane
from ludus.tui.panes import PANES


class Fake(Source):
    """A run that does what it is told."""

    owns_run = True

    def __init__(self, *, refuses: str = "") -> None:
        self.connection = Connection(state="live", words="a fake")
        self.sent = list[Payload]()
        self.is_closed = False
        self.hurried = 0
        self._refuses = refuses

    def start(self, message_queue: MessageQueue) -> None:
        """Tell one status."""
        self.message_queue = message_queue
        message_queue.take([Status(stage="TRAINING", run="fake")])

    def send(self, command: Payload) -> Future[Reply]:
        """Note it and reply."""
        self.sent.append(command)
        if self._refuses:
            return refused(self._refuses)
        future = Future[Reply]()
        future.set_result(Ack(command=command.type, result={"path": "runs/x"}))
        return future

    def close(self) -> str:
        """Done."""
        self.is_closed = True
        return "stopped in order"

    def hurry(self) -> None:
        """Counted."""
        self.hurried += 1


def test_every_number_key_shows_its_pane_alone_in_a_small_terminal() -> None:
    async def test() -> None:
        async with showing() as pilot:
            for number, spec in enumerate(PANES, start=1):
                await pilot.press(str(number))
                await repaint(pilot)
                shown = [pane.spec.name for pane in pilot.app.query(Pane) if pane.display]
                assert shown == [spec.name]
                assert f"{number} {spec.title}" in screen_text(pilot)
                assert pilot.app.query_one(f"#{spec.name}", Pane).lines

    run(test)


def test_in_a_large_terminal_a_number_key_zooms_and_the_same_or_escape_goes_back() -> None:
    async def test() -> None:
        async with showing(size=(200, 60)) as pilot:
            assert sum(pane.display for pane in pilot.app.query(Pane)) == 7
            for key, count in (("4", 1), ("4", 7), ("3", 1), ("escape", 7), ("1", 1), ("0", 7)):
                await pilot.press(key)
                assert sum(pane.display for pane in pilot.app.query(Pane)) == count

    run(test)


def test_the_recorded_run_is_all_there() -> None:
    async def test() -> None:
        async with showing(size=(200, 60)) as pilot:
            text = screen_text(pilot)
            for expected in (
                "connect_four",
                "▶ TRAINING",
                "explore",
                "KL to behaviour",
                "main@",
                "mcts-25",
                "format success",
                "seat 0",
                "steps/s",
                "recording",
            ):
                assert expected in text

    run(test)


@pytest.mark.parametrize("size", [(20, 5), (1, 1), (41, 11), (80, 24), (120, 40), (300, 100), (2, 80)])
def test_any_size_is_survived_and_what_was_shown_comes_back(size: tuple[int, int]) -> None:
    async def test() -> None:
        async with showing() as pilot:
            before = screen_text(pilot)
            await pilot.resize_terminal(*size)
            await repaint(pilot)
            if size == (20, 5):
                assert "too small" in screen_text(pilot)
            await pilot.resize_terminal(80, 24)
            await repaint(pilot)
            assert screen_text(pilot) == before

    run(test)


def test_keys_send_commands_and_replies_are_toasts() -> None:
    async def test() -> None:
        source = Fake()
        async with Dashboard(source).run_test(size=(80, 24), notifications=True) as pilot:
            await repaint(pilot)
            await pilot.press("p", "c", "e")
            assert source.sent == [Pause(), MakeCheckpoint(), Export()]
            source.message_queue.take([Status(stage="PAUSED")])
            await repaint(pilot)
            await pilot.press("p")
            assert source.sent[-1] == Resume()
            await repaint(pilot)
            assert "runs/x" in screen_text(pilot)

    run(test)


def test_stopping_asks_first() -> None:
    async def test() -> None:
        source = Fake()
        async with Dashboard(source).run_test(size=(80, 24)) as pilot:
            await pilot.press("x")
            await pilot.pause()
            assert "Stop the run?" in screen_text(pilot)
            await pilot.press("n")
            await pilot.press("x")
            await pilot.pause()
            assert source.sent == []
            await pilot.press("y")
            await pilot.pause()
            assert source.sent == [Stop()]

    run(test)


def test_what_is_refused_is_said_and_stays_in_the_log() -> None:
    async def test() -> None:
        source = Fake(refuses="the run is over")
        async with Dashboard(source).run_test(size=(80, 24), notifications=True) as pilot:
            await pilot.press("c")
            await repaint(pilot)
            assert "checkpoint was refused" in screen_text(pilot)
            await pilot.press("7")
            await repaint(pilot)
            assert "✗ checkpoint: the run is over" in "\n".join(
                line.plain for line in pilot.app.query_one("#log", Pane).lines
            )

    run(test)


def test_the_palette_has_every_command_of_the_protocol() -> None:
    assert ORDERS.keys() == COMMANDS.keys()

    async def test() -> None:
        async with Dashboard(Fake()).run_test() as pilot:
            titles = {command.title for command in pilot.app.get_system_commands(pilot.app.screen)}
            assert {order.title for order in ORDERS.values()} <= titles

    run(test)


def test_set_asks_for_its_keys_and_says_what_is_expected() -> None:
    assert ORDERS["set"].command("train.steps=2000 a.b=text c=true") == Set(
        values={"train.steps": 2000, "a.b": "text", "c": True}
    )
    with pytest.raises(ValueError, match="is not KEY"):
        ORDERS["set"].command("train.steps")

    async def test() -> None:
        source = Fake()
        async with Dashboard(source).run_test(size=(80, 24)) as pilot:
            pilot.app._give(ORDERS["set"])  # type: ignore[attr-defined]
            await pilot.pause()
            await pilot.press(*"a=1", "enter")
            await pilot.pause()
            assert source.sent == [Set(values={"a": 1})]

    run(test)


def test_the_filter_lets_through_what_fits_and_escape_ends_it() -> None:
    async def test() -> None:
        async with showing() as pilot:
            log = pilot.app.query_one("#log", LogPane)
            await pilot.press("slash", *"published")
            await repaint(pilot)
            assert log.display
            lines = [line.plain for line in log.lines]
            assert lines
            assert all("published" in line for line in lines)
            assert "filter: published" in screen_text(pilot)
            await pilot.press("escape")
            await repaint(pilot)
            assert len(log.lines) > len(lines)

    run(test)


def test_the_log_follows_until_somebody_scrolls_up() -> None:
    async def test() -> None:
        source = Fake()
        async with Dashboard(source).run_test(size=(80, 24)) as pilot:
            await pilot.press("7")
            source.message_queue.take(LogLine(line=f"line {number}") for number in range(100))
            await repaint(pilot)
            assert "line 99" in screen_text(pilot)
            await pilot.press("home")
            await pilot.pause(0.5)
            source.message_queue.take([LogLine(line="line 100")])
            await repaint(pilot)
            assert "line 0 " in screen_text(pilot)
            await pilot.press("end")
            await pilot.pause(0.5)
            source.message_queue.take([LogLine(line="line 101")])
            await repaint(pilot)
            assert "line 101" in screen_text(pilot)

    run(test)


def test_help_names_every_pane() -> None:
    async def test() -> None:
        async with showing(size=(120, 60)) as pilot:
            await pilot.press("question_mark")
            await pilot.pause()
            assert all(f"{number} {spec.title}:" in screen_text(pilot) for number, spec in enumerate(PANES, start=1))
            await pilot.press("escape")
            assert not pilot.app.screen.is_modal

    run(test)


async def leave_by(pilot: Pilot[str], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await pilot.pause()
    await until(lambda: pilot.app.return_value is not None, pilot)


@pytest.mark.parametrize("keys", [("q", "y"), ("ctrl+c",)])
def test_quitting_closes_the_source_and_tells_how_it_ended(keys: tuple[str, ...]) -> None:
    async def test() -> None:
        source = Fake()
        app = Dashboard(source)
        async with app.run_test(size=(80, 24)) as pilot:
            await repaint(pilot)
            for key in keys:
                await pilot.press(key)
                await pilot.pause()
            for _ in range(200):
                if app.return_value is not None:
                    break
                await asyncio.sleep(0.02)
        assert source.is_closed
        assert app.return_value == "stopped in order"

    run(test)


def test_quitting_a_run_of_ones_own_can_be_thought_better_of() -> None:
    async def test() -> None:
        source = Fake()
        async with Dashboard(source).run_test(size=(80, 24)) as pilot:
            await repaint(pilot)
            await pilot.press("q")
            await pilot.pause()
            assert "Quit?" in screen_text(pilot)
            await pilot.press("n")
            await pilot.pause()
            assert not source.is_closed

    run(test)


def test_the_end_of_a_daemon_is_told_with_the_end_of_its_log() -> None:
    async def test() -> None:
        source = Fake()
        async with Dashboard(source).run_test(size=(120, 40), notifications=True) as pilot:
            await repaint(pilot)
            source.message_queue.take([LogLine(line="MemoryError: 12 GB")])
            await repaint(pilot)
            source.connection = Connection(state="ended", words="the daemon was killed by SIGKILL")
            await repaint(pilot)
            text = screen_text(pilot)
            assert text.count("the daemon was killed by SIGKILL") == 2
            assert "MemoryError: 12 GB" in text

    run(test)


def test_silence_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        source = Fake()
        async with Dashboard(source).run_test(size=(80, 24)) as pilot:
            await repaint(pilot)
            source.message_queue.last_news_s -= 75
            await repaint(pilot)
            assert "silent for 1:1" in screen_text(pilot)

    run(test)


def test_a_recording_of_garbage_is_counted_on_the_screen(tmp_path: Path) -> None:
    file = tmp_path / "garbage.jsonl"
    file.write_bytes(
        b"hello\n{}\n" + b"x" * 1_500_000 + b'\n{"type":"status","payload":{"stage":"TRAINING","run":"still here"}}\n'
    )

    async def test() -> None:
        source = RecordedSource(file)
        async with Dashboard(source).run_test(size=(80, 24)) as pilot:
            assert await asyncio.to_thread(source.is_through.wait, 10)
            await repaint(pilot)
            text = screen_text(pilot)
            assert "2 unreadable lines  1 lines too long" in text
            assert "still here" in text

    run(test)


def test_without_colour_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def test() -> None:
        async with showing() as pilot:
            styles = [segment.style for strip in pilot.app.screen._compositor.render_strips() for segment in strip]
            colours = {colour.name for style in styles if style for colour in (style.color, style.bgcolor) if colour}
            assert colours <= {"default"}
            assert any(style and style.reverse for style in styles)

    run(test)


def test_failures_of_the_beginning_stay_on_the_screen() -> None:
    async def test() -> None:
        source = Fake()
        async with Dashboard(source).run_test(size=(80, 24)) as pilot:
            app = pilot.app
            assert isinstance(app, Dashboard)
            from ludus.daemon.messages import StartTraining

            app.show_reply(StartTraining(config="x.yaml"), Failure(code="bad_config", message="x.yaml:3 no such key"))
            source.message_queue.take([Status(stage="IDLE")])
            await repaint(pilot)
            assert "✗ x.yaml:3 no such key" in screen_text(pilot)

    run(test)
