"""Writes replies: a conversation goes to the engine as tokens, and comes back as text in pieces.

A reply is asked for a few tokens at a time, in one session, so it can be shown while it is written, stopped at any
string and given up when nobody listens; what the engine has computed it does not compute again.

Invariant: the same request with the same seed gives the same reply, streamed or not, from an engine that is repeatable.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from ludus.config import SamplingConfig
from ludus.errors import TimeoutExceeded
from ludus.http.answers import Piece
from ludus.http.chat_request import BadRequest, ChatRequest
from ludus.http.token_text import TextStream
from ludus.inference.conversation import conversation_tokens
from ludus.inference.protocol import Engine, Finish, Request, Sampling
from ludus.lm.chat import ChatFormat
from ludus.records import PolicyRef, derive_seed

TOKENS_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One reply that is wanted."""

    prompt: tuple[int, ...]
    policy: PolicyRef
    sampling: Sampling
    stops: tuple[str, ...]
    seed: int


class Writer:
    """Turns requests into replies of one engine."""

    def __init__(
        self, engine: Engine, chat: ChatFormat, *, context: int, sampling: SamplingConfig, deadline_s: float = 600.0
    ) -> None:
        """`sampling` has what a request leaves open; `deadline_s` bounds a whole reply."""
        self._engine = engine
        self._chat = chat
        self._context = context
        self._defaults = sampling
        self._deadline_s = deadline_s

    def plan(self, request: ChatRequest, policy: PolicyRef) -> list[Generation]:
        """The replies that a request asks for.

        Raises:
            BadRequest: the conversation does not fit into the context.
        """
        prompt = tuple(conversation_tokens(self._chat, [message.plain() for message in request.messages]))
        sampling = self._sampling(request, len(prompt))
        seed = secrets.randbits(63) if request.seed is None else request.seed
        return [
            Generation(
                prompt=prompt,
                policy=policy,
                sampling=sampling,
                stops=request.stop or self._defaults.stop,
                seed=derive_seed(seed, "choice", index),
            )
            for index in range(request.n)
        ]

    async def write(self, generation: Generation) -> AsyncIterator[Piece]:
        """Write one reply, piece by piece; the last one has its `finish`.

        Raises:
            PolicyError, TimeoutExceeded: as the engine raises them.
        """
        session = f"serve/{secrets.token_hex(8)}"
        stream = TextStream(self._chat.decode, generation.stops)
        ends = time.monotonic() + self._deadline_s
        finish: Finish | None = None
        try:
            while finish is None:
                piece = await self._next(generation, stream, session, ends)
                finish = piece.finish
                yield piece
        finally:
            self._engine.end_session(session)

    async def _next(self, generation: Generation, stream: TextStream, session: str, ends: float) -> Piece:
        left = generation.sampling.max_tokens - len(stream.tokens)
        completion = await self._engine.generate(
            Request(
                prompt=(*generation.prompt, *stream.tokens),
                policy=generation.policy,
                sampling=replace(generation.sampling, max_tokens=min(left, TOKENS_AT_ONCE)),
                seed=derive_seed(generation.seed, len(stream.tokens)),
                deadline_s=_remaining(ends, self._deadline_s),
                session=session,
                is_last=left <= TOKENS_AT_ONCE,
            )
        )
        tokens = tuple(completion.tokens.tolist())
        finish: Finish | None = "stop" if completion.finish == "stop" else None
        if finish is None and len(tokens) >= left:
            finish = "length"
        text = stream.feed(tokens, is_last=finish is not None)
        kept = len(tokens) - self._beyond_stop(stream, len(tokens)) if stream.is_stopped else len(tokens)
        return Piece(
            text=text,
            tokens=tokens[:kept],
            logps=tuple(completion.logps.tolist())[:kept],
            finish="stop" if stream.is_stopped else finish,
        )

    def _beyond_stop(self, stream: TextStream, newest: int) -> int:
        """How many of the newest tokens spell nothing but the stop string and what came after it."""
        for count in range(newest):
            if len(self._chat.decode(stream.tokens[: len(stream.tokens) - count])) <= len(stream.text):
                return count
        return newest

    def _sampling(self, request: ChatRequest, prompt_tokens: int) -> Sampling:
        room = self._context - prompt_tokens
        wanted = request.max_completion_tokens or request.max_tokens
        if room < (wanted or 1):
            raise BadRequest(
                f"the conversation has {prompt_tokens} tokens and {wanted or 1} more are wanted, but the context holds "
                f"{self._context}",
                parameter="messages",
                code="context_length_exceeded",
            )
        defaults = self._defaults
        return Sampling(
            max_tokens=wanted or min(defaults.max_tokens, room),
            temperature=defaults.temperature if request.temperature is None else request.temperature,
            top_p=defaults.top_p if request.top_p is None else request.top_p,
            top_k=defaults.top_k if request.top_k is None else request.top_k,
            min_p=defaults.min_p,
            repetition_penalty=defaults.repetition_penalty,
            stop_tokens=self._chat.stop_tokens,
        )


def _remaining(ends: float, deadline_s: float) -> float:
    remaining = ends - time.monotonic()
    if remaining <= 0:
        raise TimeoutExceeded(f"the reply was not finished within {deadline_s:g} s")
    return remaining
