"""What one token spells, as text and as bytes: for log-probabilities, where a token may be part of a character."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from ludus.http.problems import BadRequest

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
