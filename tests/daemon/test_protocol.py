"""Lines to commands and back."""

from __future__ import annotations

import json

import jsonschema
import pytest

from ludus.daemon.messages import COMMANDS, NOTIFICATIONS, REPLIES, Ack, Failure, Pause, Set, StartTraining, Status
from ludus.daemon.protocol import (
    BadLine,
    Command,
    find_id,
    parse_command,
    parse_notification,
    read_payload,
    write_command,
    write_message,
)
from ludus.daemon.schema import protocol_schema


def test_a_command_is_read_with_its_id() -> None:
    found = parse_command(b'{"type": "set", "payload": {"values": {"train.steps": 9}}, "id": "a"}\r')
    assert found == Command(Set(values={"train.steps": 9}), "a")
    assert parse_command(b'{"type": "pause"}') == Command(Pause(), None)


@pytest.mark.parametrize(
    ("line", "code", "id"),
    [
        (b"", "bad_json", None),
        (b"hello", "bad_json", None),
        (b"\xff\xfe\x00", "bad_json", None),
        (b"[1, 2]", "bad_message", None),
        (b"null", "bad_message", None),
        (b'{"id": 7}', "bad_message", 7),
        (b'{"type": 3, "id": "x"}', "bad_message", "x"),
        (b'{"type": "pause", "id": 1, "also": 2}', "bad_message", 1),
        (b'{"type": "pause", "id": true}', "bad_message", None),
        (b'{"type": "zork", "id": 2}', "unknown_type", 2),
        (b'{"type": "pause", "payload": {"x": 1}, "id": 3}', "bad_payload", 3),
        (b'{"type": "pause", "payload": [], "id": 4}', "bad_payload", 4),
        (b'{"type": "set", "payload": {}, "id": 5}', "bad_payload", 5),
        (b'{"type": "set", "payload": {"values": {"a": NaN}}, "id": 6}', "bad_json", 6),
        (b'{"id": 8, "type": "set", "payload": {"values": {"a": ' + b"[" * 100_000, "bad_json", 8),
        (b'{"type": "subscribe", "payload": {"interval_s": 0}, "id": 9}', "bad_payload", 9),
        (b'{"type": "pause", "id": "' + b"x" * 1000 + b'"}', "bad_message", "x" * 256),
    ],
)
def test_a_bad_line_is_answered_with_a_reason_and_the_id_it_has(line: bytes, code: str, id: object) -> None:
    found = parse_command(line)
    assert isinstance(found, BadLine)
    assert (found.failure.code, found.id) == (code, id)
    assert found.failure.message


def test_an_id_is_found_at_the_beginning_and_at_the_end_of_a_long_line() -> None:
    assert find_id(b'{"id": "first", "payload": "' + b"x" * 10_000) == "first"
    assert find_id(b"x" * 10_000 + b'", "id": -12}') == -12
    assert find_id(b'{"id": "a\\"b", ') == 'a"b'
    assert find_id(b"x" * 10_000) is None


def test_what_one_side_writes_the_other_reads() -> None:
    line = write_command(StartTraining(config="x.yaml", overrides=("train.steps=9",)), 4)
    assert parse_command(line) == Command(StartTraining(config="x.yaml", overrides=("train.steps=9",)), 4)
    status = Status(stage="TRAINING", metrics={"train/loss": 0.5}, steps=3)
    parsed = parse_notification(write_message(status))
    assert parsed is not None
    assert read_payload(*parsed) == status
    reply = json.loads(write_message(Ack(command="pause"), None, is_reply=True))
    assert reply == {"type": "ack", "payload": {"command": "pause", "result": {}}, "id": None}
    assert parse_notification(b'{"type": "of_a_newer_ludus"}') is None
    assert parse_notification(b"garbage") is None


def test_text_that_is_not_unicode_is_told_all_the_same() -> None:
    line = write_message(Failure(code="failed", message="a model said \ud800"))
    assert json.loads(line)["payload"]["message"] == "a model said \ud800"


def test_the_schema_takes_what_the_reader_takes_and_nothing_else() -> None:
    schema = protocol_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator({"$ref": "#/$defs/command", "$defs": schema["$defs"]})
    good = [
        {"type": "pause"},
        {"type": "start_training", "payload": {"config_filepath": "x.yaml"}},
        {"type": "set", "payload": {"values": {"train.steps": 1}}, "id": "a"},
        {"type": "subscribe", "payload": {"types": ["status"]}, "id": 3},
    ]
    bad = [
        {"type": "zork"},
        {"type": "pause", "payload": {"x": 1}},
        {"type": "set", "payload": {"values": {}}},
        {"type": "pause", "id": 1.5},
        {"type": "pause", "more": 1},
    ]
    for message in good:
        assert isinstance(parse_command(json.dumps(message).encode()), Command)
        assert check.is_valid(message), message
    for message in bad:
        assert isinstance(parse_command(json.dumps(message).encode()), BadLine)
        assert not check.is_valid(message), message


def test_what_is_sent_fits_the_schema() -> None:
    schema = protocol_schema()
    check = jsonschema.Draft202012Validator({"$ref": "#/$defs/message", "$defs": schema["$defs"]})
    assert check.is_valid(json.loads(write_message(Status(stage="IDLE"))))
    assert check.is_valid(json.loads(write_message(Failure(code="bad_json", message="x"), 3, is_reply=True)))


def test_every_message_is_in_the_registry_under_its_own_name_and_explains_itself() -> None:
    for registry in (COMMANDS, REPLIES, NOTIFICATIONS):
        for name, payload in registry.items():
            assert payload.type == name
            assert payload.__doc__
