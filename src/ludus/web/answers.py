"""What the server answers with: JSON that every browser reads, bounded, and with a tag by which it is not sent twice.

Invariant: NaN and infinities are null, half of a surrogate pair is the replacement character, and no answer is larger
than `MOST_BYTES`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.responses import Response

from ludus.errors import LudusError

MOST_BYTES = 8_000_000
_encoder = msgspec.json.Encoder(enc_hook=str)


class Refused(LudusError):
    """A request that is not served; `status` is HTTP's."""

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def to_json(value: Any) -> bytes:
    """A value as JSON.

    Raises:
        Refused: it is too large.
    """
    try:
        body = _encoder.encode(value)
    except (UnicodeEncodeError, OverflowError):
        body = _encoder.encode(_sound(value))
    if len(body) > MOST_BYTES:
        raise Refused(f"the answer would have {len(body):,} bytes, more than {MOST_BYTES:,}; ask for less", status=413)
    return body


def json_response(value: Any, *, status: int = 200, known_tag: str = "", headers: Mapping[str, str] = {}) -> Response:
    """An answer; none again to a client that has the same one already (`If-None-Match`)."""
    body = to_json(value)
    tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    own = {**headers, "etag": tag, "cache-control": "no-cache"}
    if status == 200 and known_tag and tag in known_tag:
        return Response(status_code=304, headers=own)
    return Response(body, status_code=status, media_type="application/json", headers=own)


def problem_response(message: str, status: int, headers: Mapping[str, str] = {}) -> Response:
    """What is wrong, in a sentence."""
    body = json.dumps({"error": message[:2000]}).encode()
    return Response(
        body, status_code=status, media_type="application/json", headers={**headers, "cache-control": "no-store"}
    )


def part_of(rows: Sequence[Any], offset: int, limit: int) -> dict[str, Any]:
    """One page of a list: `{rows, offset, total}`."""
    return {"rows": list(rows[offset : offset + limit]), "offset": offset, "total": len(rows)}


def _sound(value: Any) -> Any:
    """The same with text that can be encoded."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {_sound(str(key)): _sound(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_sound(each) for each in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return float(value) if abs(value) < 10**300 else None
    return value
