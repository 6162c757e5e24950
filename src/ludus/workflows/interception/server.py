"""The intercepting endpoint of one explorer: chat completions, models, and the rewards of attempts, over HTTP.

Invariants: every request but `/health` carries the token of an attempt that is going on, and reaches nothing else;
every answer that is not a reply is an error object that OpenAI's clients understand.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Sequence
from hashlib import sha256

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ludus.http.answers import DONE, Answers, Choice, Piece, new_id
from ludus.http.chat_request import BadRequest
from ludus.http.routes import EventStream, JsonAnswer, answering, http_problem, read_body, while_wanted
from ludus.http.server import LoopServer
from ludus.http.token_text import TokenText, token_text
from ludus.workflows.interception.agent_request import AgentRequest, read_agent_request, read_reward
from ludus.workflows.interception.interception import Interception
from ludus.workflows.rollout_model import RolloutModel


class InterceptionServer:
    """Belongs to one event loop. Listens on this machine's own address, from the first attempt on."""

    def __init__(self) -> None:
        self._server: LoopServer | None = None
        self._interceptions: dict[str, Interception] = {}
        self._token_text: TokenText | None = None

    def open(self, model: RolloutModel) -> tuple[Interception, str, str]:
        """Record an attempt; returns the interception, where its endpoint is, and the token that opens it."""
        if self._server is None:
            self._server = LoopServer(self._app())
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

    # -- one method for each path ----------------------------------------------------------------------------------

    def _app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/health", answering(self._health), methods=["GET"]),
                Route("/v1/models", answering(self._models), methods=["GET"]),
                Route("/v1/chat/completions", answering(self._chat), methods=["POST"]),
                Route("/v1/ludus/reward", answering(self._reward), methods=["POST"]),
            ],
            exception_handlers={HTTPException: http_problem},
        )

    async def _health(self, request: Request) -> Response:
        """Whether the endpoint answers."""
        return JSONResponse({"status": "ok"})

    async def _models(self, request: Request) -> Response:
        """The policy; it answers to any name."""
        name = str(self._find(request).model.policy.name)
        return JSONResponse(
            {"object": "list", "data": [{"id": name, "object": "model", "created": 0, "owned_by": "ludus"}]}
        )

    async def _chat(self, request: Request) -> Response:
        """Reply to a conversation and remember it."""
        interception = self._find(request)
        wanted = read_agent_request(await read_body(request))
        id = new_id()
        pieces = await while_wanted(request, _reply(interception, wanted, id))
        answers = Answers(
            id=id,
            model=wanted.model,
            prompt_tokens=interception.prompt_tokens(id),
            token_text=self._text(interception, wanted),
        )
        if wanted.stream:
            return EventStream(_events(pieces, answers, wanted), on_end=lambda: None)
        choices = [Choice() for _ in pieces]
        for choice, piece in zip(choices, pieces, strict=True):
            choice.add(piece)
        return JsonAnswer(answers.whole(choices))

    async def _reward(self, request: Request) -> Response:
        """Take what the attempt is worth."""
        interception = self._find(request)
        interception.judge(read_reward(await read_body(request)))
        return JSONResponse({"status": "ok"})

    def _find(self, request: Request) -> Interception:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        interception = self._interceptions.get(_digest(token.strip())) if scheme.lower() == "bearer" else None
        if interception is None:
            raise BadRequest(
                "the request does not carry the token of an attempt that is going on (Authorization: Bearer ...)",
                status=401,
            )
        return interception

    def _text(self, interception: Interception, wanted: AgentRequest) -> TokenText | None:
        if not wanted.logprobs:
            return None
        if self._token_text is None:
            self._token_text = token_text(interception.model.template)
        return self._token_text


async def _reply(interception: Interception, wanted: AgentRequest, id: str) -> list[Piece]:
    """All choices that a request asks for."""
    replies = [asyncio.ensure_future(interception.reply(wanted, id=id, choice=number)) for number in range(wanted.n)]
    try:
        return await asyncio.gather(*replies)
    finally:
        for reply in replies:
            reply.cancel()
        await asyncio.gather(*replies, return_exceptions=True)


async def _events(pieces: Sequence[Piece], answers: Answers, wanted: AgentRequest) -> AsyncGenerator[bytes]:
    for index, piece in enumerate(pieces):
        yield answers.opening_event(index)
        yield answers.event(index, piece)
    if wanted.stream_options is not None and wanted.stream_options.include_usage:
        yield answers.usage_event([len(piece.tokens) for piece in pieces])
    yield DONE


def _digest(token: str) -> str:
    """Looked up by this, how long a look-up takes says nothing about a token."""
    return sha256(token.encode(errors="replace")).hexdigest()
