"""Tokens that arrive bit by bit, as text that can be shown at once.

Invariants: what has been given out never changes; together the pieces are what the tokens decode to as a whole, up to
the first stop string; no piece ends in half a character or in what may be the beginning of a stop string.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

BROKEN = "\ufffd"
"""How a decoder shows bytes that are no whole character (yet)."""
MOST_HELD = 256
"""Tokens that are held back for the sake of one character, at most."""


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
