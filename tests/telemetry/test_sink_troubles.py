"""What sinks lost can be read from the events of a run, live or ended."""

from pathlib import Path

from ludus.storage.jsonl import JsonlWriter
from ludus.telemetry.sinks import read_sink_troubles, trouble_in_words


def troubles(path: Path, *events: dict[str, object]) -> dict[str, str]:
    with JsonlWriter(path / "events.jsonl") as writer:
        for event in events:
            writer.write(event)
    return {status.name: trouble_in_words(status) for status in read_sink_troubles(path / "events.jsonl")}


STARTED = {"event": "started"}
BEHIND = {"event": "sink_behind", "sink": "wandb", "dropped": 3, "error": ""}
OFF = {"event": "sink_off", "sink": "wandb", "error": "OSError: gone"}
GOOD = {"name": "tensorboard", "queued": 0, "dropped": 0, "error": "", "is_off": False}
BAD = {"name": "wandb", "queued": 0, "dropped": 1200, "error": "OSError: gone", "is_off": True}


def test_a_run_without_sinks_has_no_troubles(tmp_path: Path) -> None:
    assert troubles(tmp_path, STARTED) == {}


def test_a_live_run_tells_what_is_known(tmp_path: Path) -> None:
    assert troubles(tmp_path, STARTED, BEHIND) == {"wandb": "3 lines lost"}
    assert troubles(tmp_path, OFF) == {"wandb": "3 lines lost, switched off (OSError: gone)"}


def test_the_end_of_a_run_has_the_last_word(tmp_path: Path) -> None:
    ended = {"event": "sinks", "sinks": [GOOD, BAD]}
    assert troubles(tmp_path, STARTED, BEHIND, ended) == {"wandb": "1,200 lines lost, switched off (OSError: gone)"}
    assert troubles(tmp_path, STARTED) == {}
