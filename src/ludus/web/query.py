"""What stands behind the question mark, checked. Raises `Refused` with what was expected."""

from __future__ import annotations

from math import isfinite

from starlette.requests import Request

from ludus.web.answers import Refused

MOST_NAMES, MOST_CHARACTERS = 64, 1000


def text(request: Request, name: str, default: str = "") -> str:
    """A word or a sentence."""
    return request.query_params.get(name, default)[:MOST_CHARACTERS]


def texts(request: Request, name: str) -> list[str]:
    """All values of a name that may be given several times."""
    found = [each[:MOST_CHARACTERS] for each in request.query_params.getlist(name)]
    if len(found) > MOST_NAMES:
        raise Refused(f"{name}: {len(found)} are given, at most {MOST_NAMES} are served at once")
    return list(dict.fromkeys(found))


def choice(request: Request, name: str, choices: tuple[str, ...]) -> str:
    """One of some words; the first where none is given."""
    found = text(request, name, choices[0])
    if found not in choices:
        raise Refused(f"{name}: expected one of {', '.join(filter(None, choices))}, got {found!r}")
    return found


def whole(request: Request, name: str, default: int, *, least: int = 0, most: int = 1_000_000_000) -> int:
    """A whole number within bounds; one beyond them is brought to the next bound."""
    found = request.query_params.get(name)
    if found is None or found == "":
        return default
    try:
        return min(max(int(found[:20]), least), most)
    except ValueError:
        raise Refused(f"{name}: expected a whole number, got {found[:50]!r}") from None


def number(request: Request, name: str) -> float | None:
    """A number; None where none is given."""
    found = request.query_params.get(name)
    if found is None or found == "":
        return None
    try:
        value = float(found[:40])
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise Refused(f"{name}: expected a number, got {found[:50]!r}")
    return value
