"""A small server that speaks the chat-completions API over a model of its own, whose tokens are printable characters:
the next one depends on the last. It never ends a reply by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ludus.http.server import serving

FIRST, LETTERS, CONTEXT = 32, 95, 512


def log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())


async def complete(request: Request) -> Response:
    body = await request.json()
    said = "".join(message["content"] for message in body["messages"])
    if len(said) + body["max_tokens"] > CONTEXT:
        error = {"message": f"maximum context length is {CONTEXT}", "code": "context_length_exceeded"}
        return JSONResponse({"error": error}, status_code=400)
    entries = write(said, body)
    text = "".join(entry["token"] for entry in entries)
    message = {"role": "assistant", "content": text}
    choice = {"message": message, "finish_reason": "length", "logprobs": {"content": entries}}
    usage = {"prompt_tokens": len(said), "completion_tokens": len(entries)}
    return JSONResponse({"choices": [choice], "usage": usage})


def write(said: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    rng = np.random.default_rng(body["seed"])
    entries = []
    for _ in range(body["max_tokens"]):
        raw = np.cos(np.arange(LETTERS) * (1 + ord(said[-1]) % 7)) * 2
        logps = log_softmax(raw / (body["temperature"] or 1.0))
        leaves_one = body.get("top_k") == 1 or body["top_p"] < 0.01 or body.get("min_p", 0) > 0.99
        is_greedy = body["temperature"] == 0 or leaves_one
        place = int(raw.argmax()) if is_greedy else int(rng.choice(LETTERS, p=np.exp(logps)))
        letter = chr(FIRST + place)
        entries.append({"token": letter, "logprob": float(logps[place]), "bytes": [FIRST + place]})
        said += letter
    return entries


@contextmanager
def fake_openai() -> Iterator[str]:
    with serving(Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])) as url:
        yield url
