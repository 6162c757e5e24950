"""F22: whatever is said to the daemon, each line gets one reply, and the daemon lives on with bounded memory."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from ludus.daemon.driver import Driver, Message
from ludus.storage.checkpoints import newest_whole

# A run that begins in a moment, since nothing has to be compiled, and that would go on for minutes.
LONG = """
name: long
games: [open_spiel:leduc_poker]
population: {stop: {nash_conv: null, generations: 100000}}
checkpoint: {every: 5}
telemetry: {tensorboard: false}
"""
BAD = (
    b"",
    b"hello",
    b"\xff\xfe\x00\x80",
    b"{",
    b"[]",
    b"null",
    b'"pause"',
    b'{"type": "zork", "id": "@"}',
    b'{"type": "pause", "payload": {"extra": 1}, "id": "@"}',
    b'{"type": "set", "payload": {}, "id": "@"}',
    b'{"type": "set", "payload": {"values": {"a": NaN}}, "id": "@"}',
    b'{"type": "set", "payload": {"values": {"a": ' + b"[" * 50_000 + b"]" * 50_000 + b'}}, "id": "@"}',
    b'{"type": "start_training", "payload": {"config": 7}, "id": "@"}',
    b'{"type": "start_training", "payload": {}, "id": "@"}',
    b'{"type": "start_training", "payload": {"config": "nowhere.yaml"}, "id": "@"}',
    b'{"type": "pause", "id": "@"}',
    b'{"type": "stop", "id": "@"}',
    b'{"type": "checkpoint", "id": "@"}',
    b'{"type": "export", "id": "@"}',
    b'{"type": "subscribe", "payload": {"types": ["nothing"]}, "id": "@"}',
    b'{"type": "status", "id": "@"}\r',
)
PRINTING = """
import os, subprocess, sys
print("a library says hello")
os.write(1, b"so does its native part\\n")
subprocess.run(["echo", "and its child"], check=True)
sys.__stdout__.write("once more\\n")
sys.__stdout__.flush()
"""


def rss_bytes(daemon: Driver) -> int:
    return int(Path(f"/proc/{daemon.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def replies(daemon: Driver) -> list[Message]:
    return [message for message in list(daemon.messages) if "id" in message]


def wait_for_replies(daemon: Driver, count: int) -> None:
    while len(replies(daemon)) < count:
        daemon.wait_for(lambda message: "id" in message)


def test_every_line_gets_one_reply_with_its_id_and_nothing_else_reaches_the_output(tmp_path: Path) -> None:
    plugin = tmp_path / "printing.py"
    plugin.write_text(PRINTING)
    (tmp_path / "long.yaml").write_text(LONG)
    shuffled = random.Random(7)
    with Driver("--plugin", str(plugin), log=tmp_path / "log", folder=tmp_path) as daemon:
        ids = []
        for number in range(20):
            for line in shuffled.sample(BAD, len(BAD)):
                ids.append(f"{number}-{len(ids)}" if b'"@"' in line else None)
                daemon.write(line.replace(b"@", str(ids[-1]).encode()) + b"\n")
        wait_for_replies(daemon, len(ids))
        before = rss_bytes(daemon)
        for _ in range(1600):
            daemon.write(b"z" * 65536)
        daemon.write(b'", "id": "long"}\n')
        reply = daemon.wait_for(lambda message: message.get("id") == "long")
        assert reply["payload"]["code"] == "too_long"
        assert rss_bytes(daemon) - before < 50_000_000
        assert daemon.ask("start_training", config="long.yaml", run_dir="run")["run"] == "long"
        daemon.write(b'{"type": "status", "id": "half')
        daemon.wait_for_stage("TRAINING")  # half a line, and the rest of the world goes on
        daemon.write(b'"}\n')
        for number in range(1000):
            daemon.send("status" if number % 3 else ("pause", "resume")[number % 2], f"flood-{number}")
        daemon.wait_for(lambda message: message.get("id") == "flood-999")
        daemon.send("stop", "stop-1")
        daemon.send("stop", "stop-2")
        daemon.wait_for(lambda message: message.get("id") == "stop-2")
        daemon.write(b'{"type": "status", "id": "unfinished"}')  # no end of line: the end of the input is as good
        assert daemon.end() == 0
        answered = Counter(message["id"] for message in replies(daemon))
        expected = Counter(ids) + Counter(["long", "half", "unfinished", "start_training-1", "stop-1", "stop-2"])
        expected += Counter(f"flood-{number}" for number in range(1000))
        assert answered == expected
        assert not daemon.foreign
    log = (tmp_path / "log").read_text()
    for words in ("a library says hello", "so does its native part", "and its child", "once more"):
        assert words in log
    assert newest_whole(tmp_path / "run" / "checkpoints").state["progress"]["steps"] > 0


@pytest.mark.parametrize("how", ["end of input", "SIGTERM", "SIGINT", "shutdown"])
def test_the_end_is_orderly(tmp_path: Path, how: str) -> None:
    (tmp_path / "long.yaml").write_text(LONG)
    with Driver(log=tmp_path / "log", folder=tmp_path) as daemon:
        daemon.ask("start_training", config="long.yaml", run_dir="run")
        daemon.wait_for(lambda message: message["type"] == "status" and message["payload"]["steps"] > 2)
        if how == "shutdown":
            daemon.ask("shutdown")
        elif how != "end of input":
            daemon.process.send_signal(getattr(signal, how))
            daemon.process.wait(60)
        assert daemon.end() == 0
        last = [message["payload"] for message in daemon.messages if message["type"] == "status"][-1]
        assert last["stage"] == "STOPPED"
    saved = newest_whole(tmp_path / "run" / "checkpoints")
    assert saved.state["progress"]["steps"] == last["steps"]
    assert not (tmp_path / "run" / "control.sock").exists()


def test_a_second_signal_ends_it_at_once_and_the_run_goes_on_from_there(tmp_path: Path) -> None:
    (tmp_path / "long.yaml").write_text(LONG)
    with Driver(log=tmp_path / "log", folder=tmp_path) as daemon:
        daemon.ask("start_training", config="long.yaml", run_dir="run")
        daemon.wait_for(lambda message: message["type"] == "status" and message["payload"]["steps"] > 6)
        os.kill(daemon.process.pid, signal.SIGTERM)
        os.kill(daemon.process.pid, signal.SIGINT)
        assert daemon.process.wait(60) in (0, 130)
    saved = newest_whole(tmp_path / "run" / "checkpoints").state["progress"]["steps"]
    with Driver(log=tmp_path / "log", folder=tmp_path) as daemon:
        daemon.ask("start_training", config="long.yaml", run_dir="run")
        assert daemon.wait_for_stage("TRAINING")["steps"] >= saved > 0


def test_a_reader_that_is_gone_leaves_the_run_and_the_commands_alone(tmp_path: Path) -> None:
    (tmp_path / "long.yaml").write_text(LONG)
    with Driver(log=tmp_path / "log", folder=tmp_path) as daemon:
        daemon.ask("start_training", config="long.yaml", run_dir="run")
        daemon.wait_for_stage("TRAINING")
        assert daemon.process.stdout is not None
        os.close(os.dup(daemon.process.stdout.fileno()))
        descriptor = daemon.process.stdout.fileno()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, descriptor)  # the pipe's reading end is gone: writing to it is EPIPE from now on
        os.close(null)
        daemon.send("set", 1, values={"checkpoint.every": 7})
        config, end = tmp_path / "run" / "config.yaml", time.monotonic() + 60
        while "every: 7" not in config.read_text():
            assert daemon.process.poll() is None
            assert time.monotonic() < end
        assert daemon.end() == 0
    assert newest_whole(tmp_path / "run" / "checkpoints").state["progress"]["steps"] > 0


def test_what_a_client_is_told_fits_the_schema(tmp_path: Path) -> None:
    import jsonschema

    from ludus.daemon.schema import protocol_schema

    (tmp_path / "long.yaml").write_text(LONG)
    schema = protocol_schema()
    check = jsonschema.Draft202012Validator({"$ref": "#/$defs/message", "$defs": schema["$defs"]})
    with Driver(log=tmp_path / "log", folder=tmp_path) as daemon:
        daemon.ask("start_training", config="long.yaml", run_dir="run")
        daemon.wait_for(lambda message: message["type"] == "league")
        daemon.send("zork", 3)
        daemon.ask("stop")
        daemon.end()
        kinds = {message["type"] for message in daemon.messages}
        assert {"ack", "error", "status", "training_status", "progress", "event", "policy_published"} <= kinds
        for message in daemon.messages:
            assert check.is_valid(message), json.dumps(message)[:2000]
