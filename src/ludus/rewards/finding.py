"""Finds the answer in a response. Linear in its length, whatever it holds; only its end is read."""

from __future__ import annotations

import re

from ludus.errors import ConfigError
from ludus.lm.extraction import MAX_REPLY_CHARS, check_extraction, extract

ANSWER, NUMBER = "answer", "number"
"""Ways of this room, besides those of `ludus.lm.extraction`."""
MOST_ANSWER_CHARS = 1_000
"""A longer answer is none."""

_STATED = re.compile(r"####|\banswer\b\s{0,4}(?:is\b\s{0,2}:?|[:=])", re.IGNORECASE)
_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{1,4})?")
_CLOSING = " \t.!,;:*"


def find(how: str, response: str) -> str | None:
    """The answer in a response; None when there is none."""
    text = response[-MAX_REPLY_CHARS:]
    if how == ANSWER:
        found = find_answer(text)
    elif how == NUMBER:
        found = last_number(text)
    else:
        extracted = extract(how, text, None)
        found = extracted.move if extracted.format_ok else None
    return found.strip() if found is not None and len(found) <= MOST_ANSWER_CHARS else None


def check_find(how: str, *own: str) -> None:
    """Raise `ConfigError` when there is no such way; `own` are those of this room that are allowed."""
    if how in own:
        return
    try:
        check_extraction(how)
    except ConfigError as error:
        names = ", ".join((*own, "whole", "boxed", "bracket", "last_line"))
        reason = str(error).partition(": ")[2]
        raise ConfigError(f"find {how!r}: {reason} (ways to find an answer: {names}, regex:...)") from error
    if how == "choice":
        raise ConfigError("find 'choice': rewards know no legal moves; use a reward of kind choice")


def find_answer(text: str) -> str | None:
    """The last boxed answer, else what was last said to be the answer, else the last number."""
    boxed = extract("boxed", text, None)
    if boxed.format_ok:
        return boxed.move
    return stated_answer(text) or last_number(text)


def stated_answer(text: str) -> str | None:
    """The rest of the line after the last "answer is", "answer:" or "####"."""
    last = None
    for last in _STATED.finditer(text):  # noqa: B007 - the last one is wanted
        pass
    if last is None:
        return None
    return text[last.end() :].partition("\n")[0].strip(_CLOSING) or None


def last_number(text: str) -> str | None:
    """The last number."""
    last = None
    for last in _NUMBER.finditer(text):  # noqa: B007 - the last one is wanted
        pass
    return None if last is None else last[0].rstrip(",")
