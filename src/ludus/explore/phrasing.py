"""A move as a reply that asks for nothing else: the inverse of `extraction`, for players that are to be learnt from."""

from __future__ import annotations

from ludus.errors import ConfigError

PHRASES = {
    "whole": "{move}",
    "boxed": "\\boxed{{{move}}}",
    "bracket": "[{move}]",
    "last_line": "{move}",
    "choice": "{move}",
}


def phrase(how: str, move: str) -> str:
    """What to say so that `extract(how, ...)` finds the move."""
    if how not in PHRASES:
        raise ConfigError(f"action {how!r}: a fixed player cannot phrase its moves so; use one of {', '.join(PHRASES)}")
    if how == "bracket" and move.startswith("[") and move.endswith("]"):
        return move
    return PHRASES[how].format(move=move)
