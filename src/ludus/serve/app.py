"""The HTTP side of `ludus serve`: `/v1/models`, `/v1/chat/completions` and `/health`.

Invariants: every answer that is not a reply is an error object that OpenAI's clients understand; no more than
`max_in_flight` requests are worked on at a time; a reply that nobody waits for any more is given up.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, replace

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ludus.config import RunConfig
from ludus.errors import ConfigError, LudusError
from ludus.http.answers import DONE, Answers, Choice, Piece, sse
from ludus.http.chat_request import BadRequest, ChatRequest, as_bad_request, read_chat_request
from ludus.http.routes import EventStream, Guard, answering, http_problem, read_body, while_wanted
from ludus.http.token_text import TokenText
from ludus.inference.protocol import Engine
from ludus.policies import PolicyStore
from ludus.serve.members import Members
from ludus.serve.writer import Generation, Writer
from ludus.storage.run_directory import RunDirectory


@dataclass(slots=True, kw_only=True)
class Service:
    """What is served, with one method for each path."""

    engine: Engine
    members: Members
    writer: Writer
    token_text: TokenText
    max_in_flight: int = 64
    in_flight: int = 0
    """Requests that are worked on now."""

    async def health(self, request: Request) -> Response:
        """Whether the server answers, and how much it is doing."""
        done = self.engine.counters
        asked = {"completed": done.completed, "failed": done.failed, "sampled_tokens": done.sampled_tokens}
        return JSONResponse({"status": "ok", "in_flight": self.in_flight, "engine": asked})

    async def models(self, request: Request) -> Response:
        """All pool members."""
        cards = await asyncio.to_thread(self.members.cards)
        return JSONResponse({"object": "list", "data": cards})

    async def model(self, request: Request) -> Response:
        """One pool member."""
        return JSONResponse(await asyncio.to_thread(self.members.card, request.path_params["model"]))

    async def chat(self, request: Request) -> Response:
        """Reply to a conversation, at once or as a stream."""
        wanted = read_chat_request(await read_body(request))
        policy = await asyncio.to_thread(self.members.find, wanted.model)
        generations = self.writer.plan(wanted, policy)
        answers = Answers(
            model=wanted.model,
            prompt_tokens=len(generations[0].prompt),
            token_text=self.token_text if wanted.logprobs else None,
        )
        self._enter()
        if wanted.stream:
            return EventStream(self._events(generations, answers, wanted), on_end=self._leave)
        try:
            return JSONResponse(answers.whole(await while_wanted(request, self._gather(generations))))
        finally:
            self._leave()

    def _enter(self) -> None:
        if self.in_flight >= self.max_in_flight:
            raise BadRequest(
                f"{self.in_flight} requests are being worked on, which is all this server does at a time; try again",
                status=429,
            )
        self.in_flight += 1

    def _leave(self) -> None:
        self.in_flight -= 1

    async def _gather(self, generations: list[Generation]) -> list[Choice]:
        choices = [Choice() for _ in generations]
        async with contextlib.aclosing(self._pieces(generations)) as pieces:
            async for index, piece in pieces:
                choices[index].add(piece)
        return choices

    async def _events(
        self, generations: list[Generation], answers: Answers, wanted: ChatRequest
    ) -> AsyncGenerator[bytes]:
        counts = [0] * len(generations)
        for index in range(len(generations)):
            yield answers.opening_event(index)
        try:
            async with contextlib.aclosing(self._pieces(generations)) as pieces:
                async for index, piece in pieces:
                    counts[index] += len(piece.tokens)
                    yield answers.event(index, piece)
        except LudusError as error:  # the status has gone out already
            yield sse(as_bad_request(error).to_json())
            return
        if wanted.stream_options is not None and wanted.stream_options.include_usage:
            yield answers.usage_event(counts)
        yield DONE

    async def _pieces(self, generations: list[Generation]) -> AsyncGenerator[tuple[int, Piece]]:
        """The pieces of all replies, as they come."""
        arrived: asyncio.Queue[tuple[int, Piece | Exception]] = asyncio.Queue()

        async def write(index: int, generation: Generation) -> None:
            try:
                async for piece in self.writer.write(generation):
                    arrived.put_nowait((index, piece))
            except Exception as error:  # whoever waits for the pieces raises it
                arrived.put_nowait((index, error))

        tasks = [asyncio.ensure_future(write(index, generation)) for index, generation in enumerate(generations)]
        unfinished = len(tasks)
        try:
            while unfinished:
                index, item = await arrived.get()
                if isinstance(item, Exception):
                    raise item
                unfinished -= item.finish is not None
                yield index, item
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def open_service(
    run: RunDirectory, config: RunConfig, *, threads: int | None = None, max_in_flight: int = 64
) -> Service:
    """Everything that the application needs to serve a run, live or finished.

    Raises:
        ConfigError: the run has no language model, or none that can be loaded here.
    """
    from ludus.explore.runners.text_building import make_engine
    from ludus.lm.chat import ChatFormat
    from ludus.lm.language_models import load_language_model
    from ludus.lm.language_shape import LanguageModelShape

    if config.policy.model is None:
        raise ConfigError(f"{run.path} trains a network, not a language model; play against it with: ludus play")
    store = PolicyStore(run.policies)
    versions = store.versions(config.policy.name)
    if not versions:
        raise ConfigError(f"{run.path} has published no policy yet")
    shape = store.shape(versions[-1])
    if not isinstance(shape, LanguageModelShape):
        raise ConfigError(f"{run.path}: {versions[-1]} is a network, not a language model")
    shape = replace(shape, critic=False).standing_on(run.base)
    model = load_language_model(shape.model, threads=threads)
    engine = make_engine(config, model, shape, store)
    return Service(
        engine=engine,
        members=Members(store, config.policy.name, catalog=run.catalog),
        writer=Writer(
            engine,
            ChatFormat(model.tokenizer, config.explore.sampling),
            context=model.context,
            sampling=config.explore.sampling,
        ),
        token_text=TokenText(model.tokenizer),
        max_in_flight=max_in_flight,
    )


def make_app(service: Service, *, token: str = "") -> Starlette:
    """The application. It owns the engine: shutting it down closes the engine."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await service.engine.close()

    return Starlette(
        routes=[
            Route("/health", answering(service.health), methods=["GET"]),
            Route("/v1/models", answering(service.models), methods=["GET"]),
            Route("/v1/models/{model}", answering(service.model), methods=["GET"]),
            Route("/v1/chat/completions", answering(service.chat), methods=["POST"]),
        ],
        middleware=[Middleware(Guard, token=token)],
        exception_handlers={HTTPException: http_problem},
        lifespan=lifespan,
    )
