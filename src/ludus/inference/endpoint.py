"""One HTTP endpoint that speaks JSON: deadlines, bounded retries with back-off, and a key that nobody gets to see.

Invariants: a call ends by its deadline, whatever the other side does; what may be tried again (no connection, 429, 5xx,
an answer that is not JSON) is tried a bounded number of times; the key comes from the environment, goes into one header
and is cut out of every message. Redirects are not followed, so the key goes to the endpoint and nowhere else.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2 as httpx

from ludus.errors import PolicyError, RolloutError, TimeoutExceeded, Unreachable
from ludus.inference.addresses import check_url, is_loopback, read_key
from ludus.inference.protocol import EngineCounters

T = TypeVar("T")

RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Answers after which the same call may do better a little later."""
AWAY = frozenset({502, 503, 504})
"""Answers that mean that there is nobody who could answer."""
MOST_BYTES = 64 * 1024 * 1024
"""Of one answer."""
MOST_WAIT_S = 60.0
"""Between two attempts."""
CONNECT_S = 10.0
SHOWN = 300
"""Characters of somebody else's message that we repeat."""


class EndpointRefused(PolicyError):
    """The endpoint answered with an error status. `parameter` is the one that it names, if any."""

    def __init__(self, message: str, *, status: int, parameter: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.parameter = parameter


class EndpointAway(EndpointRefused, Unreachable):
    """Somebody answered that the endpoint itself is not there: a gateway, or a server that is not ready."""


class _TryAgain(Exception):
    """An attempt failed in a way that may pass."""

    def __init__(self, error: RolloutError, wait_s: float = 0.0) -> None:
        super().__init__(str(error))
        self.error = error
        self.wait_s = wait_s


class Endpoint:
    """Calls one endpoint from one event loop. `counters` is the engine's, and gets the retries."""

    def __init__(
        self,
        url: str,
        *,
        counters: EngineCounters,
        key_variable: str | None = None,
        attempt_s: float | None = None,
        retries: int = 4,
        backoff_s: float = 0.5,
        max_in_flight: int = 64,
    ) -> None:
        """`key_variable` names the environment variable that has the key; `attempt_s` bounds one attempt."""
        self.url = check_url(url)
        self._key = read_key(url, key_variable)
        self._counters = counters
        self._attempt_s = attempt_s
        self._retries = retries
        self._backoff_s = backoff_s
        self._places = asyncio.Semaphore(max_in_flight)
        self._client: httpx.AsyncClient | None = None
        self._running: set[asyncio.Task[Any]] = set()
        self._is_closed = False
        self.breaks = 0
        """Times that the connection broke or could not be made: the server may be another one since."""

    async def get(self, path: str, *, deadline_s: float) -> dict[str, Any]:
        """The JSON object at a path below the endpoint's URL. Raises as `post` does."""
        return self._object(await self._call("GET", path, None, deadline_s, RETRIED))

    async def text(self, path: str, *, deadline_s: float) -> str:
        """Any text at a path below the endpoint's URL. Raises as `post` does."""
        return str(await self._call("GET", path, None, deadline_s, RETRIED, is_json=False))

    async def post(self, path: str, body: Mapping[str, Any], *, deadline_s: float) -> dict[str, Any]:
        """Send a JSON object; returns the one that comes back.

        Raises:
            EndpointRefused: an error status, at once or after the last attempt.
            Unreachable: no connection, or nobody behind it, after the last attempt.
            PolicyError: nothing that could be understood.
            TimeoutExceeded: the deadline passed.
        """
        return self._object(await self._call("POST", path, body, deadline_s, RETRIED))

    async def command(self, path: str, body: Mapping[str, Any], *, deadline_s: float) -> str:
        """Send a JSON object and take any text for an answer; status 500 is final. Raises as `post` does."""
        return str(await self._call("POST", path, body, deadline_s, RETRIED - {500}, is_json=False))

    async def close(self) -> None:
        """Let the connections go. Calls in flight fail."""
        self._is_closed = True
        for task in self._running:
            task.cancel()
        if self._client is not None:
            await self._client.aclose()

    # -- attempts --------------------------------------------------------------------------------------------------

    async def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        deadline_s: float,
        retried: frozenset[int],
        *,
        is_json: bool = True,
    ) -> Any:
        content = b"" if body is None else json.dumps(body).encode()
        troubles: list[str] = []
        try:
            async with asyncio.timeout(deadline_s):
                return await self._cancellable(self._attempts(method, path, content, retried, is_json, troubles))
        except TimeoutError:
            why = f"; before that: {troubles[-1]}" if troubles else ""
            raise TimeoutExceeded(f"{self.url}{path}: no answer within {deadline_s:.3g} s{why}") from None

    async def _attempts(
        self, method: str, path: str, content: bytes, retried: frozenset[int], is_json: bool, troubles: list[str]
    ) -> Any:
        async with self._places:
            for attempt in range(self._retries + 1):
                try:
                    async with asyncio.timeout(self._attempt_s):
                        return await self._attempt(method, path, content, retried, is_json)
                except TimeoutError:
                    again = _TryAgain(TimeoutExceeded(f"{self.url}{path}: no answer within {self._attempt_s:g} s"))
                except _TryAgain as caught:
                    again = caught
                troubles.append(str(again.error))
                if attempt < self._retries:
                    self._counters.retries += 1
                    await asyncio.sleep(self._wait_s(attempt, again.wait_s))
        if self._retries:
            again.error.args = (f"{again.error} (tried {self._retries + 1} times)",)
        raise again.error

    async def _attempt(self, method: str, path: str, content: bytes, retried: frozenset[int], is_json: bool) -> Any:
        try:
            status, headers, data = await self._exchange(method, path, content)
        except httpx.TransportError as error:
            self.breaks += 1
            what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise _TryAgain(
                Unreachable(f"{self.url} cannot be reached ({self._clean(what)}); is it running?")
            ) from error
        if status >= 300:
            refusal = self._refusal(path, status, data)
            raise _TryAgain(refusal, _retry_after(headers)) if status in retried else refusal
        if not is_json:
            return data.decode(errors="replace")
        try:
            return json.loads(data)
        except ValueError:
            said = self._clean(data.decode(errors="replace"))
            raise _TryAgain(PolicyError(f"{self.url}{path}: the answer is not JSON: {said!r}")) from None

    async def _exchange(self, method: str, path: str, content: bytes) -> tuple[int, httpx.Headers, bytes]:
        if self._client is None:
            self._client = self._make_client()
        data = bytearray()
        async with self._client.stream(method, self.url + path, content=content) as response:
            async for chunk in response.aiter_bytes():
                data += chunk
                if len(data) > MOST_BYTES:
                    raise PolicyError(f"{self.url}{path}: the answer has more than {MOST_BYTES:,} bytes")
            return response.status_code, response.headers, bytes(data)

    async def _cancellable(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for work that `close` may cancel."""
        if self._is_closed:
            work.close()
            raise PolicyError(f"{self.url}: the engine is closed")
        task = asyncio.ensure_future(work)
        self._running.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if self._is_closed and task.cancelled():
                raise PolicyError(f"{self.url}: the engine was closed before the answer came") from None
            raise
        finally:
            self._running.discard(task)

    def _wait_s(self, attempt: int, asked_s: float) -> float:
        """Twice as long each time, spread out so that many callers do not come back together."""
        backoff = min(self._backoff_s * 2.0**attempt, MOST_WAIT_S)
        return max(backoff * random.uniform(0.5, 1.0), min(asked_s, MOST_WAIT_S))

    def _make_client(self) -> httpx.AsyncClient:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        return httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(None, connect=CONNECT_S),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
            trust_env=not is_loopback(urlsplit(self.url).hostname or ""),
        )

    def _refusal(self, path: str, status: int, data: bytes) -> EndpointRefused:
        message, parameter = _error_message(data)
        kind = EndpointAway if status in AWAY else EndpointRefused
        return kind(f"{self.url}{path}: status {status}: {self._clean(message)}", status=status, parameter=parameter)

    def _object(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise PolicyError(f"{self.url}: expected a JSON object, got {self._clean(str(value))!r}")
        return value

    def _clean(self, text: str) -> str:
        """Somebody else's words, short, in one line and without our key."""
        if self._key:
            text = text.replace(self._key, "[key]")
        text = " ".join(text.split())
        return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def _error_message(data: bytes) -> tuple[str, str]:
    """What went wrong, and the parameter that is named for it, in any of the forms that servers use."""
    text = data[: 64 * 1024].decode(errors="replace")
    try:
        body = json.loads(text)
    except ValueError:
        return text or "(nothing was said)", ""
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return str(error), ""
    message = error.get("message") or error.get("detail") or text
    return str(message), str(error.get("param") or "")


def _retry_after(headers: httpx.Headers) -> float:
    """Seconds that the server asks us to wait; 0 where it says nothing, or names a date."""
    try:
        seconds = float(headers.get("retry-after", "0"))
    except ValueError:
        return 0.0
    return max(seconds, 0.0) if math.isfinite(seconds) else 0.0
