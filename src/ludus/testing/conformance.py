"""What every conformance check needs: one error, and calls into other people's code that always end in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from ludus.errors import EnvError, PolicyError, boundary

P = ParamSpec("P")
T = TypeVar("T")


class ConformanceError(AssertionError):
    """A part breaks a promise of its protocol; the message says which."""


def require(is_kept: bool, promise: str) -> None:
    """Raise unless the promise is kept."""
    if not is_kept:
        raise ConformanceError(promise)


def call(what: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a part; whatever it raises breaks its promise."""
    try:
        with boundary(EnvError, what):
            return function(*args, **kwargs)
    except EnvError as error:
        raise ConformanceError(f"{what} raised: {error}") from error


def require_refusal(what: str, function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call a part with something it must refuse with `EnvError`."""
    try:
        with boundary(PolicyError, what):
            function(*args, **kwargs)
    except EnvError:
        return
    except PolicyError as error:
        raise ConformanceError(f"{what}: expected EnvError, got {type(error.__cause__).__name__}") from error
    raise ConformanceError(f"{what}: was accepted, expected EnvError")


def through_json(state: object) -> Any:
    """A state as a checkpoint gives it back."""
    try:
        return json.loads(json.dumps(state, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ConformanceError(f"state is not JSON: {error}") from error
