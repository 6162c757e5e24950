"""One file to one HTTP server: bounded, over TLS, with a token that is never written down.

Exactly once: every request of one release has the same `Idempotency-Key`. A request whose answer was lost is sent
again with that key, so a server that knows the key answers without a second entry.
"""

from __future__ import annotations

import http.client
import ipaddress
import os
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from ludus.errors import ConfigError, LudusError

_PIECE = 1 << 20
_MOST_ANSWER = 64 * 1024


class UploadFailed(LudusError):
    """The server did not take the file. `is_final`: the same request would be refused again."""

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        super().__init__(text)
        self.is_final = is_final


def check_url(url: str) -> None:
    """Raise ConfigError unless the address is https, or this machine's own."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and parts.hostname and _is_loopback(parts.hostname):
        return
    raise ConfigError(f"{url}: expected https://..., so that nobody reads the token on its way")


def upload(
    url: str, file: Path, *, key: str, token_env: str | None, fields: Mapping[str, str], timeout_s: float
) -> str:
    """POST a file as a multipart form; returns the server's answer. Raises UploadFailed."""
    check_url(url)
    token = os.environ.get(token_env, "") if token_env else ""
    if token_env and not token:
        raise UploadFailed(f"the environment has no {token_env}; set it to the server's token", is_final=True)
    boundary = f"ludus-{key}"
    head, tail = _form(file.name, fields, boundary)
    headers = {
        "Content-Type": f"multipart/form-data; boundary={boundary}",
        "Content-Length": str(len(head) + file.stat().st_size + len(tail)),
        "Idempotency-Key": key,
        **({"Authorization": f"Bearer {token}"} if token else {}),
    }
    try:
        status, text = _post(url, headers, _body(file, head, tail), timeout_s)
    except (OSError, http.client.HTTPException) as error:
        raise UploadFailed(f"{_address(url)}: {type(error).__name__}: {error}") from error
    if 200 <= status < 300:
        return text
    is_final = 400 <= status < 500 and status not in (408, 425, 429)
    raise UploadFailed(f"{_address(url)} answered {status}: {text[:200]!r}", is_final=is_final)


def _post(url: str, headers: Mapping[str, str], body: Iterator[bytes], timeout_s: float) -> tuple[int, str]:
    parts = urlsplit(url)
    if parts.scheme == "https":
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port, timeout=timeout_s, context=ssl.create_default_context()
        )
    else:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", target, body=body, headers=dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.read(_MOST_ANSWER).decode("utf-8", "replace")
    finally:
        connection.close()


def _form(name: str, fields: Mapping[str, str], boundary: str) -> tuple[bytes, bytes]:
    lines = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'
        for field, value in fields.items()
    ]
    lines.append(
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    )
    return "".join(lines).encode(), f"\r\n--{boundary}--\r\n".encode()


def _body(file: Path, head: bytes, tail: bytes) -> Iterator[bytes]:
    yield head
    with file.open("rb") as stream:
        while piece := stream.read(_PIECE):
            yield piece
    yield tail


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _address(url: str) -> str:
    """Without what might be a secret: no user, no query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"
