"""Bodies of requests: JSON of a known shape, small, and in time."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import msgspec
from starlette.requests import Request

from ludus.web.answers import Refused

MOST_BODY_BYTES = 65_536
BODY_S = 10.0
Shape = TypeVar("Shape", bound=msgspec.Struct)


async def read_json_body(request: Request, shape: type[Shape]) -> Shape:
    """The body of a POST.

    Raises:
        Refused: it is something else, too much, or not all of it in time.
    """
    # Only with this type does a browser ask first before it sends another site's request.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refused("expected Content-Type: application/json", status=415)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MOST_BODY_BYTES:
                    raise Refused(f"the body has more than {MOST_BODY_BYTES:,} bytes", status=413)
    except TimeoutError:
        raise Refused(f"the body did not arrive within {BODY_S:g} s", status=408) from None
    try:
        return msgspec.json.decode(bytes(body) or b"{}", type=shape)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Refused(f"the body cannot be read: {error}") from None
