"""What can be wrong with a request, as an HTTP status and the error object that OpenAI's clients understand."""

from __future__ import annotations

from typing import Any

from ludus.errors import LudusError, TimeoutExceeded

CODES = {401: "invalid_api_key", 403: "forbidden", 404: "not_found", 429: "too_many_requests"}


class BadRequest(LudusError):
    """A request that cannot be served. `status` is HTTP's; `parameter` names the field to blame, if there is one."""

    def __init__(self, message: str, *, status: int = 400, parameter: str | None = None, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.parameter = parameter
        self.code = code or CODES.get(status)

    def to_json(self) -> dict[str, Any]:
        """The body of the answer."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": str(self), "type": kind, "param": self.parameter, "code": self.code}}


def as_bad_request(error: LudusError) -> BadRequest:
    """What went wrong while a request was served, as an answer."""
    if isinstance(error, BadRequest):
        return error
    return BadRequest(str(error), status=504 if isinstance(error, TimeoutExceeded) else 500)
