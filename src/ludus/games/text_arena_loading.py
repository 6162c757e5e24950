"""Loads TextArena's games: without network, without prints, and with chance that belongs to one game.

TextArena draws from Python's global `random` and seeds it. Here its modules get dice of ours in place of that module:
while a game's code runs under `throwing(dice)` they are that game's, so many games can be in flight, in threads too,
and none disturbs another. Invariant: after `load_environment`, a call under `throwing` depends on the dice alone.
"""

from __future__ import annotations

import importlib
import logging
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from functools import cache
from random import Random
from types import ModuleType
from typing import Any

from ludus.errors import ConfigError
from ludus.games.text_arena_catalog import known_ids, module_name, refusal

log = logging.getLogger(__name__)

_DICE: ContextVar[Random | None] = ContextVar("textarena_dice", default=None)


class GivenDice(ModuleType):
    """Stands for the module `random` in TextArena's modules."""

    def __getattr__(self, name: str) -> Any:
        dice = _DICE.get()
        return getattr(random if dice is None or not hasattr(dice, name) else dice, name)


_GIVEN_DICE = GivenDice("random")


@contextmanager
def throwing(dice: Random) -> Iterator[None]:
    """Code of TextArena draws from these dice inside."""
    token = _DICE.set(dice)
    try:
        yield
    finally:
        _DICE.reset(token)


def load_environment(id: str) -> Callable[[], Any]:
    """What makes a bare environment of this id; its wrappers are left to ludus.

    Raises:
        ConfigError: there is no such id, or it cannot be played here.
    """
    game = known_ids().get(id)
    if game is None:
        nearest = get_close_matches(id, list(known_ids()), n=3, cutoff=0.5)
        hint = f"; did you mean {' or '.join(f'textarena:{near}' for near in nearest)}?" if nearest else ""
        raise ConfigError(f"game textarena:{id}: TextArena has no such game{hint}")
    if problem := refusal(game):
        raise ConfigError(f"game textarena:{id}: {problem}")
    try:
        entry = registration(id)
        kind = _load_class(entry.entry_point)
    except Exception as error:
        raise ConfigError(f"game textarena:{id}: cannot be loaded ({_one_line(error)})") from error
    return lambda: kind(**entry.kwargs)


def registration(id: str) -> Any:
    """TextArena's `EnvSpec` of an id."""
    return _textarena().envs.registration.ENV_REGISTRY[id]


@cache
def _textarena() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = importlib.import_module("textarena")
    _take_over()
    return module


@cache
def _load_class(entry_point: str) -> Any:
    path, _, name = entry_point.partition(":")
    with warnings.catch_warnings(), _no_downloads():
        warnings.simplefilter("ignore")
        module = importlib.import_module(path)
    _take_over()
    log.debug("loaded %s", module_name(entry_point))
    return getattr(module, name)


def _take_over() -> None:
    """Give the modules of TextArena that are loaded our dice, and a `print` that goes to the log."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "textarena" and module is not None:
            if vars(module).get("random") is random:
                vars(module)["random"] = _GIVEN_DICE
            vars(module).setdefault("print", _print_to_log)


def _print_to_log(*parts: object, **options: object) -> None:
    log.debug("textarena: %s", " ".join(map(str, parts)))


@contextmanager
def _no_downloads() -> Iterator[None]:
    """Some games ask NLTK for data when they are imported; what is not on this machine stays missing."""
    nltk: Any = importlib.import_module("nltk")
    original = nltk.download
    nltk.download = lambda *parts, **options: False
    try:
        yield
    finally:
        nltk.download = original


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
