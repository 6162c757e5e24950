"""Bodies of requests: JSON of a known shape, small, and in time."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from starlette.requests import Request

from ludus.http.chat_request import BadRequest
from ludus.http.routes import read_body
from ludus.web.answers import Refused

MOST_BODY_BYTES = 65_536
BODY_S = 10.0
Shape = TypeVar("Shape", bound=msgspec.Struct)


async def read_json_body(request: Request, shape: type[Shape]) -> Shape:
    """The body of a POST.

    Raises:
        Refused: it is something else, too much, or not all of it in time.
    """
    try:
        body = await read_body(request, most_bytes=MOST_BODY_BYTES, seconds=BODY_S)
    except BadRequest as error:
        raise Refused(str(error), status=error.status) from None
    try:
        return msgspec.json.decode(body or b"{}", type=shape)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Refused(f"the body cannot be read: {error}") from None
