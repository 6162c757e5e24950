"""The OpenAI chat API from the server's side: requests checked, answers written.

`ludus.serve` answers with it for people, `ludus.workflows.interception` for programs that are being trained. What loads
Starlette is imported when it is first asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ludus.http.answers import Answers
    from ludus.http.chat_request import ChatRequest, read_chat_request
    from ludus.http.loop_server import LoopServer
    from ludus.http.problems import BadRequest
    from ludus.http.text_stream import TextStream
    from ludus.http.token_text import TokenText

__all__ = ["Answers", "BadRequest", "ChatRequest", "LoopServer", "TextStream", "TokenText", "read_chat_request"]

_HOMES = {
    "Answers": "answers",
    "BadRequest": "problems",
    "ChatRequest": "chat_request",
    "LoopServer": "loop_server",
    "TextStream": "text_stream",
    "TokenText": "token_text",
    "read_chat_request": "chat_request",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
