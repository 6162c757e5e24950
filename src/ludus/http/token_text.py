"""Tokens as text: one that stands alone, for log-probabilities, and many that arrive bit by bit.

`TokenText` gives what one token spells, as text and as bytes: it may be part of a character. Invariants of
`TextStream`: what has been given out never changes; together the pieces are what the tokens decode to as a whole, up to
the first stop string; no piece ends in half a character or in what may be the beginning of a stop string.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from ludus.http.chat_request import BadRequest

BROKEN = "\ufffd"
"""How a decoder shows bytes that are no whole character (yet)."""
MOST_HELD = 256
"""Tokens that are held back for the sake of one character, at most."""
_ONE_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
"""How tokenizers with byte fallback write a byte."""


class TokenText:
    """Looks tokens up in one tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._marks = frozenset(tokenizer.all_special_ids)
        self._bytes_of_signs = _bytes_of_signs() if _is_byte_level(tokenizer) else None
        self._spelled = lru_cache(maxsize=65_536)(self._spell)

    def describe(self, token: int, logp: float) -> dict[str, Any]:
        """A token with its log-probability, as the API writes it. Marks of the model have no bytes."""
        text, spelled = self._spelled(token)
        return {"token": text, "logprob": logp, "bytes": spelled, "top_logprobs": []}

    def _spell(self, token: int) -> tuple[str, list[int] | None]:
        written = str(self._tokenizer.convert_ids_to_tokens(token))
        if token in self._marks:
            return written, []
        if self._bytes_of_signs is not None and all(sign in self._bytes_of_signs for sign in written):
            spelled = bytes(self._bytes_of_signs[sign] for sign in written)
            return spelled.decode(errors="replace"), list(spelled)
        if byte := _ONE_BYTE.fullmatch(written):
            return written, [int(byte[1], 16)]
        text = str(self._tokenizer.decode([token], clean_up_tokenization_spaces=False))
        return text, list(text.encode(errors="replace"))


def token_text(format: Any) -> TokenText:
    """What the tokens of a chat format spell.

    Raises:
        BadRequest: it has no tokenizer.
    """
    tokenizer = getattr(format, "tokenizer", None)
    if tokenizer is None:
        raise BadRequest("there are no log-probabilities of single tokens here", parameter="logprobs")
    return TokenText(tokenizer)


def _is_byte_level(tokenizer: Any) -> bool:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    decoder = json.loads(backend.to_str()).get("decoder") if backend is not None else None
    return "ByteLevel" in json.dumps(decoder)


def _bytes_of_signs() -> dict[str, int]:
    """The byte that each sign of a byte-level tokenizer stands for: printable ones for themselves, then in order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(others)}


class TextStream:
    """The text of one completion."""

    def __init__(self, decode: Callable[[Sequence[int]], str], stops: Sequence[str] = ()) -> None:
        self.tokens: list[int] = []
        self.text = ""
        """Given out so far."""
        self.is_stopped = False
        """Whether a stop string has been found; nothing comes after it."""
        self._decode = decode
        self._stops = tuple(stops)
        self._pending = ""
        self._before = 0
        self._read = 0

    def feed(self, tokens: Sequence[int], *, is_last: bool = False) -> str:
        """Take more tokens; returns the text that can be shown now."""
        self.tokens += tokens
        self._pending += self._new_text(is_last)
        given = self._up_to_stop()
        if given is None:
            held = 0 if is_last else self._may_begin_stop()
            given = self._pending[: len(self._pending) - held]
            self._pending = self._pending[len(given) :]
        self.text += given
        return given

    def _new_text(self, is_last: bool) -> str:
        """Decode from a little before what is new: a decoder may write a token differently where it stands first."""
        known = self._decode(self.tokens[self._before : self._read])
        text = self._decode(self.tokens[self._before :])
        is_held = text.endswith(BROKEN) and len(self.tokens) - self._read < MOST_HELD and not is_last
        if is_held or len(text) <= len(known):
            return ""
        self._before, self._read = self._read, len(self.tokens)
        return text[len(known) :]

    def _up_to_stop(self) -> str | None:
        places = [place for stop in self._stops if (place := self._pending.find(stop)) >= 0]
        if not places:
            return None
        self.is_stopped = True
        return self._pending[: min(places)]

    def _may_begin_stop(self) -> int:
        """Length of the longest end of what is pending that a stop string begins with."""
        lengths = [
            length
            for stop in self._stops
            for length in range(1, min(len(stop), len(self._pending) + 1))
            if self._pending.endswith(stop[:length])
        ]
        return max(lengths, default=0)
