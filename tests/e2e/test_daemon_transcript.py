"""The conversation of docs/daemon.md, had again with a real daemon that only hears JSON."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ludus.daemon.driver import Driver
from ludus.storage.checkpoints import newest_whole

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "daemon.md").read_text()


@pytest.mark.slow
def test_the_conversation_of_the_page_takes_place_as_it_says(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```transcript\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    lines = block.splitlines()
    said = [json.loads(line[2:])["type"] for line in lines if line.startswith("> ")]
    assert said == ["start_training", "pause", "checkpoint", "resume", "export", "stop"]
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    explorer: subprocess.Popen[bytes] | None = None
    with Driver(log=tmp_path / "log", folder=tmp_path) as daemon:
        try:
            for line in lines:
                if line.startswith("# "):
                    command = line.partition("ludus ")[2].split()
                    explorer = subprocess.Popen(
                        [sys.executable, "-m", "ludus.cli.app", *command, "--quiet"],
                        cwd=tmp_path,
                        stderr=subprocess.DEVNULL,
                    )
                elif line.startswith("> "):
                    daemon.write(line[2:].encode() + b"\n")
                else:
                    await_message(daemon, json.loads(line[2:]))
        finally:
            if explorer is not None:
                explorer.kill()
                explorer.wait()
        assert daemon.end() == 0
        assert not daemon.foreign
    run = tmp_path / "runs" / "trainer"
    assert newest_whole(run / "checkpoints").state["progress"]["update"] > 0
    assert list((run / "export").iterdir())


def await_message(daemon: Driver, expected: dict[str, object]) -> None:
    """Wait for a message like one of the page: a reply to the same command, or a status with the same stage."""
    payload = expected["payload"]
    assert isinstance(payload, dict)
    if "id" not in expected:
        daemon.wait_for_stage(payload["stage"])
        return
    found = daemon.wait_for(lambda message: message.get("id") == expected["id"])
    assert (found["type"], found["payload"]["command"]) == (expected["type"], payload["command"])
    assert set(found["payload"]["result"]) == set(payload["result"])
