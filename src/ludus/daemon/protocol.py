"""Bytes to lines, lines to messages, and back. Nothing raises for what a line holds: a bad one becomes a `BadLine`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
from pydantic import ValidationError

from ludus.daemon.messages import COMMANDS, NOTIFICATIONS, REPLIES, Failure, Payload

MOST_BYTES = 1_000_000
CHUNK_BYTES = 1 << 16
_KEPT = 4096
"""Bytes of the beginning and the end of a line that is too long, to find its id in."""


@dataclass(slots=True)
class TooLong:
    """What is remembered of a line that is thrown away."""

    size: int
    beginning: bytes
    end: bytes

    @classmethod
    def of(cls, part: bytes | bytearray) -> TooLong:
        """A line that begins with this part."""
        return cls(len(part), bytes(part[:_KEPT]), bytes(part[-_KEPT:]))

    def add(self, part: bytes) -> None:
        """The line goes on."""
        self.size += len(part)
        self.end = (self.end + part[-_KEPT:])[-_KEPT:]


class LineSplitter:
    """Takes chunks as they come from a pipe."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._begun = bytearray()
        self._skipped: TooLong | None = None

    def feed(self, chunk: bytes) -> list[bytes | TooLong]:
        """The lines that this chunk completes."""
        first, *others = chunk.split(b"\n")
        self._keep(first)
        if not others:
            return []
        *whole, rest = others
        lines = [self._finish(), *(line if len(line) <= self._most else TooLong.of(line) for line in whole)]
        self._keep(rest)
        return lines

    def end(self) -> list[bytes | TooLong]:
        """What came after the last end of a line."""
        return [self._finish()] if self._begun or self._skipped else []

    def _keep(self, part: bytes) -> None:
        if self._skipped is not None:
            self._skipped.add(part)
            return
        self._begun += part
        if len(self._begun) > self._most:
            self._skipped = TooLong.of(self._begun)
            self._begun.clear()

    def _finish(self) -> bytes | TooLong:
        line, self._skipped = self._skipped or bytes(self._begun), None
        self._begun.clear()
        return line


def read_lines(descriptor: int, *, most_bytes: int = MOST_BYTES) -> Iterator[bytes | TooLong]:
    """Lines of a descriptor until the end of the input, or until it fails."""
    splitter = LineSplitter(most_bytes)
    while chunk := _read(descriptor):
        yield from splitter.feed(chunk)
    yield from splitter.end()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, CHUNK_BYTES)
    except OSError:  # the other side is gone, which is the end
        return b""


MessageId = str | int | None
"""What a client gives a command, to know the reply by."""

MOST_ID_CHARACTERS = 256


class Envelope(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The outside of every message; the payload is looked at only when somebody wants it."""

    type: str
    payload: msgspec.Raw = msgspec.Raw(b"{}")
    id: str | int | None = None


class _Anything(msgspec.Struct):
    """What can be told of a line that is no message, to answer it."""

    type: Any = None
    id: Any = None


@dataclass(frozen=True, slots=True)
class Command:
    """What a client wants."""

    payload: Payload
    id: MessageId = None

    @property
    def type(self) -> str:
        """Its name in the registry."""
        return self.payload.type


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no command, and what to answer."""

    failure: Failure
    id: MessageId = None


_ENVELOPES = msgspec.json.Decoder(Envelope)
_ANYTHING = msgspec.json.Decoder(_Anything)
_ID = re.compile(rb'"id"\s*:\s*("(?:[^"\\]|\\.){0,256}"|-?\d{1,30})')
_LOOKED_AT = 4096


def parse_command(line: bytes) -> Command | BadLine:
    """What a line asks for."""
    try:
        envelope = _ENVELOPES.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _not_a_message(line, error)
    if isinstance(envelope.id, str) and len(envelope.id) > MOST_ID_CHARACTERS:
        reason = f"an id has at most {MOST_ID_CHARACTERS} characters"
        return BadLine(Failure(code="bad_message", message=reason), envelope.id[:MOST_ID_CHARACTERS])
    kind = COMMANDS.get(envelope.type)
    if kind is None:
        known = ", ".join(COMMANDS)
        reason = f"there is no command {envelope.type[:100]!r}; there are: {known}"
        return BadLine(Failure(code="unknown_type", message=reason, command=envelope.type[:100]), envelope.id)
    try:
        return Command(kind.model_validate_json(bytes(envelope.payload)), envelope.id)
    except ValidationError as error:
        failure = Failure(code="bad_payload", message=_in_words(error), command=envelope.type)
    except RecursionError:
        failure = Failure(code="bad_payload", message="the payload is nested too deeply", command=envelope.type)
    return BadLine(failure, envelope.id)


def parse_notification(line: bytes) -> tuple[Envelope, type[Payload]] | None:
    """What a daemon says, not yet looked into; None for what is no message, or one of a newer ludus."""
    try:
        envelope = _ENVELOPES.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    kind = REPLIES.get(envelope.type) or NOTIFICATIONS.get(envelope.type)
    return None if kind is None else (envelope, kind)


def read_payload(envelope: Envelope, kind: type[Payload]) -> Payload | None:
    """The payload of a notification; None if it is not of its kind."""
    try:
        return kind.model_validate_json(bytes(envelope.payload))
    except (ValidationError, RecursionError):
        return None


def write_message(payload: Payload, id: MessageId = None, *, is_reply: bool = False) -> bytes:
    """One line, with its end. Replies have an id even where the command had none."""
    head: dict[str, Any] = {"type": payload.type, "payload": payload.model_dump(mode="python", exclude_none=True)}
    if is_reply:
        head["id"] = id
    return _encode(head)


def write_command(payload: Payload, id: MessageId = None) -> bytes:
    """One line of a client."""
    head = {"type": payload.type, "payload": payload.model_dump(mode="python", exclude_defaults=True)}
    return _encode(head if id is None else {**head, "id": id})


def _encode(message: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(message, enc_hook=str) + b"\n"
    except UnicodeEncodeError:  # half a surrogate pair, as a model may say it: JSON can escape it, UTF-8 has no way
        return json.dumps(message, default=str).encode() + b"\n"


def _not_a_message(line: bytes, error: Exception) -> BadLine:
    """Tell JSON that is no message from what is no JSON at all, and give back its id where one can be found."""
    try:
        found = _ANYTHING.decode(line)
    except msgspec.ValidationError:
        found = _Anything()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return BadLine(
            Failure(code="bad_json", message=f"a line is one JSON object: {str(error)[:300]}"), find_id(line)
        )
    id = found.id if isinstance(found.id, (str, int)) and not isinstance(found.id, bool) else None
    reason = f'a message is {{"type": ..., "payload": {{...}}, "id": ...}}: {str(error)[:300]}'
    command = found.type[:100] if isinstance(found.type, str) else None
    return BadLine(Failure(code="bad_message", message=reason, command=command), id)


def find_id(line: bytes) -> MessageId:
    """The id of a line that cannot be read, as far as its beginning or its end shows one."""
    for part in (line[:_LOOKED_AT], line[-_LOOKED_AT:]):
        if found := _ID.search(part):
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                return msgspec.json.decode(found[1], type=str | int)
    return None


def _in_words(error: ValidationError) -> str:
    """What is wrong with a payload, key by key."""
    lines = [
        f"payload.{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" if each["loc"] else each["msg"]
        for each in error.errors(include_url=False, include_input=False, include_context=False)[:20]
    ]
    return "; ".join(lines)[:2000]
