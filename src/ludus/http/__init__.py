"""The OpenAI chat API from the server's side: requests checked, answers written.

`ludus.serve` answers with it for people, `ludus.workflows.interception` for programs that are being trained. What loads
Starlette is imported when it is first asked for.
"""

from typing import TYPE_CHECKING

from ludus.lazy import import_later

if TYPE_CHECKING:
    from ludus.http.answers import Answers
    from ludus.http.chat_request import BadRequest, ChatRequest, read_chat_request
    from ludus.http.server import LoopServer
    from ludus.http.token_text import TextStream, TokenText

__all__ = ["Answers", "BadRequest", "ChatRequest", "LoopServer", "TextStream", "TokenText", "read_chat_request"]

__getattr__ = import_later(__name__)
