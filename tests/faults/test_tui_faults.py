"""F23: whatever happens to the daemon, the terminal or the dashboard, the terminal is restored and the run is safe."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.faults.terminal import Terminal, dashboard_of, ludus

from ludus.storage.lock import RunLock

ENDLESS = """
name: endless
games: [open_spiel:leduc_poker]
population:
  scheduler: psro
  meta_solver: nash
  oracle: exact
  stop: {generations: 100000, nash_conv: 0}
"""
"""Goes on for longer than any test, and needs neither workers nor a compiler to begin."""
STATUS = '{"type":"status","payload":{"stage":"TRAINING","run":"a small one"}}'
TALKS = f"""
import sys
print({STATUS!r}, flush=True)
sys.stdin.readline()  # the first thing it is told is to shut down
"""
COLOUR = re.compile(rb"\x1b\[(?:[0-9]*;)*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9]*)*m")


def await_that(condition: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def has_ended_in_order(run_dir: Path) -> bool:
    """Whether the newest start of a run was followed by a stop that was asked for."""
    events = [json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()]
    turns = [event for event in events if event["event"] in ("started", "ended", "failed")]
    return turns[-1]["event"] == "ended" and turns[-1]["stopped"] is True and RunLock.holder(run_dir) is None


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "endless.yaml"
    file.write_text(ENDLESS)
    return file


@contextmanager
def daemon(config: Path, run_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon that somebody else started, with a run."""
    process = subprocess.Popen(
        ludus("daemon"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdin
    assert process.stdout
    start = {"type": "start_training", "payload": {"config": str(config), "run_dir": str(run_dir)}, "id": 1}
    process.stdin.write(json.dumps(start).encode() + b"\n" + b'{"type":"subscribe","payload":{"types":[]},"id":2}\n')
    process.stdin.flush()
    try:
        await_that((run_dir / "control.sock").exists)
        yield process
    finally:
        process.stdin.close()
        process.stdout.read()
        process.stdout.close()
        process.wait(60)


def test_a_killed_daemon_is_told_of_and_the_dashboard_goes_on_and_leaves_the_terminal_in_order(
    config: Path, tmp_path: Path
) -> None:
    with Terminal(ludus("tui", str(config), "--run-dir", str(tmp_path / "run"))) as terminal:
        terminal.expect(b"STARTING|TRAINING|WAITING")
        (pid,) = children(terminal.process.pid)
        os.kill(pid, signal.SIGKILL)
        terminal.expect(b"was killed by SIGKILL")
        terminal.press(b"2")
        terminal.expect(b"training time")
        terminal.press(b"c")
        terminal.expect(b"checkpoint was refused")
        terminal.press(b"q")
        assert terminal.wait() == 1
        terminal.assert_restored()
        assert b"the daemon was killed by SIGKILL" in terminal.seen[terminal.seen.rfind(b"\x1b[?1049l") :]


def test_a_killed_dashboard_leaves_a_daemon_that_saves_and_ends_by_itself(config: Path, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with Terminal(ludus("tui", str(config), "--run-dir", str(run_dir))) as terminal:
        terminal.expect(b"TRAINING|WAITING", 90)
        (pid,) = children(terminal.process.pid)
        terminal.process.kill()
        await_that(lambda: not is_alive(pid), 90)
    assert has_ended_in_order(run_dir)


def test_a_run_that_was_attached_to_goes_on_when_the_dashboard_is_killed_or_quit_and_shows_the_same_again(
    config: Path, tmp_path: Path
) -> None:
    run_dir = tmp_path / "run"
    with daemon(config, run_dir) as process:
        with Terminal(ludus("tui", str(run_dir))) as terminal:
            terminal.expect(b"attached to process %d" % process.pid)
            terminal.expect(b"endless")
            terminal.press(b"p")
            terminal.expect(b"PAUSED", 90)
            terminal.process.kill()
        with Terminal(ludus("tui", str(run_dir))) as terminal:
            terminal.expect(b"PAUSED")
            terminal.press(b"q")
            assert terminal.wait() == 0
            assert b"continues" in terminal.seen
            terminal.assert_restored()
        assert process.poll() is None
    assert has_ended_in_order(run_dir)


@pytest.mark.parametrize("is_signalled", [True, False])
def test_a_closed_terminal_ends_the_dashboard(is_signalled: bool) -> None:
    with Terminal(dashboard_of_command(), controls=is_signalled) as terminal:
        terminal.expect(b"connect_four")
        terminal.hang_up()
        assert terminal.process.wait(30) == 0


def test_a_terminal_that_is_closed_stops_the_run_that_was_started_in_it_in_order(config: Path, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with Terminal(ludus("tui", str(config), "--run-dir", str(run_dir))) as terminal:
        terminal.expect(b"TRAINING|WAITING", 90)
        (pid,) = children(terminal.process.pid)
        terminal.hang_up()
        for _ in range(3):  # as a shell does for its jobs
            terminal.process.send_signal(signal.SIGHUP)
        assert terminal.process.wait(90) == 0
        assert not is_alive(pid)
    assert has_ended_in_order(run_dir)


def test_a_dashboard_that_was_stopped_and_goes_on_quits_as_ever() -> None:
    with Terminal(dashboard_of_command()) as terminal:
        terminal.expect(b"connect_four")
        for number in (signal.SIGSTOP, signal.SIGCONT):
            terminal.process.send_signal(number)
        terminal.press(b"4")
        terminal.expect(b"mcts-25")
        terminal.press(b"q")
        assert terminal.wait() == 0
        terminal.assert_restored()


def test_a_daemon_that_says_nothing_for_long_is_told_of_and_keys_work() -> None:
    with Terminal(dashboard_of("import time; time.sleep(600)")) as terminal:
        terminal.expect(b"silent for 0:0[5-9]", 40)
        terminal.press(b"2")
        terminal.expect(b"training time", 5)
        terminal.press(b"\x03")
        terminal.wait()
        terminal.assert_restored()


def test_garbage_on_standard_output_is_counted_and_nothing_else() -> None:
    program = f"""
        import os, sys
        write = sys.stdout.buffer.write
        for _ in range(50):
            write(os.urandom(5000) + b"\\n")
        write(b"x" * 3_000_000 + b"\\n" + b"\\x1b[2J\\x1b[?1049l\\n")
        write({STATUS!r}.encode() + b"\\n")
        sys.stdout.flush()
        print("\\x1b[31mevil\\x1b]0;title\\x07", file=sys.stderr, flush=True)
        sys.stdin.readline()
    """
    with Terminal(dashboard_of(textwrap.dedent(program))) as terminal:
        terminal.expect(b"unreadable lines")
        terminal.press(b"7")
        shown = terminal.expect(b"evil")
        assert b"\x1b]0;title" not in terminal.seen
        assert b"a small one" in terminal.seen
        assert b"\x1b[31mevil" not in shown
        terminal.press(b"\x03")
        assert terminal.wait() == 0
        terminal.assert_restored()


def test_a_window_of_20_by_5_is_survived() -> None:
    with Terminal(dashboard_of(TALKS)) as terminal:
        terminal.expect(b"a small one")
        terminal.resize((20, 5))
        terminal.expect(b"too small")
        terminal.resize((120, 40))
        terminal.expect(rb"(?s)Schedule.*Collection")
        terminal.press(b"\x03")
        assert terminal.wait() == 0
        terminal.assert_restored()


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_without_colours_none_are_sent_and_everything_is_there(environment: dict[str, str]) -> None:
    with Terminal(dashboard_of_command(), env=environment) as terminal:
        terminal.expect(b"connect_four")
        terminal.press(b"4")
        terminal.expect(b"mcts-25")
        terminal.press(b"q")
        assert terminal.wait() == 0
        assert not COLOUR.search(terminal.seen)
        terminal.assert_restored()


def dashboard_of_command() -> list[str]:
    return ludus("tui", str(Path(__file__).parents[1] / "tui" / "recordings" / "connect_four.jsonl"))


@pytest.mark.parametrize("after_s", [0.0, 0.5, 1.2, 2.4, 4.0])
def test_ctrl_c_at_any_moment_restores_the_terminal_and_leaves_nobody_behind(after_s: float) -> None:
    with Terminal(dashboard_of(TALKS)) as terminal:
        time.sleep(after_s)
        found = children(terminal.process.pid)
        terminal.press(b"\x03")
        while terminal.process.poll() is None:
            terminal.wait_a_little(0.3)
            if terminal.process.poll() is None:
                terminal.press(b"\x03")
        terminal.wait()
        terminal.assert_restored()
        await_that(lambda: not any(is_alive(pid) for pid in found), 30)


def test_signals_and_errors_restore_the_terminal() -> None:
    with Terminal(dashboard_of(TALKS)) as terminal:
        terminal.expect(b"a small one")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.wait() == 0
        terminal.assert_restored()
    broken = dashboard_of(TALKS)
    broken[2] = broken[2].replace(
        "sys.exit(", "import ludus.tui.board as b; b.head_lines = lambda *_: 1 / 0; sys.exit("
    )
    with Terminal(broken) as terminal:
        assert terminal.wait() != 0
        assert b"ZeroDivisionError" in terminal.seen
        terminal.assert_restored()
