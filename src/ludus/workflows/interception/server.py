"""The endpoint of one explorer: it runs while attempts need it, and knows each of them by a token of its own."""

from __future__ import annotations

import secrets
from hashlib import sha256

from ludus.http.loop_server import LoopServer
from ludus.workflows.interception.app import make_app
from ludus.workflows.interception.interception import Interception
from ludus.workflows.rollout_model import RolloutModel


class InterceptionServer:
    """Belongs to one event loop. Listens on this machine's own address, from the first attempt on."""

    def __init__(self) -> None:
        self._server: LoopServer | None = None
        self._interceptions: dict[str, Interception] = {}

    def open(self, model: RolloutModel) -> tuple[Interception, str, str]:
        """Record an attempt; returns the interception, where its endpoint is, and the token that opens it."""
        if self._server is None:
            self._server = LoopServer(make_app(self._find))
        token, interception = f"ludus-{secrets.token_hex(16)}", Interception(model)
        self._interceptions[_digest(token)] = interception
        return interception, self._server.url, token

    def end(self, token: str) -> None:
        """The attempt is over; its token opens nothing any more."""
        self._interceptions.pop(_digest(token), None)

    async def close(self) -> None:
        """Stop answering."""
        if self._server is not None:
            await self._server.stop()
            self._server = None

    def _find(self, token: str) -> Interception | None:
        return self._interceptions.get(_digest(token))


def _digest(token: str) -> str:
    """Looked up by this, how long a look-up takes says nothing about a token."""
    return sha256(token.encode(errors="replace")).hexdigest()
