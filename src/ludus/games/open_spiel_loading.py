"""Loads OpenSpiel games by name, and says what a seat is shown of them.

Invariant: every refusal is a `ConfigError` of one line, and OpenSpiel prints nothing. A game that OpenSpiel has but
ludus cannot play is added to `UNPLAYABLE` with its reason.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np
import pyspiel
from numpy.typing import NDArray

from ludus.errors import ConfigError
from ludus.games.registry import did_you_mean

Observer = tuple[Callable[[Any, int], None], NDArray[np.float32]]
"""Looks at a `pyspiel.State` as a seat sees it, and the flat tensor that this refreshes."""

log = logging.getLogger(__name__)

UNPLAYABLE = {
    "chat_game": "needs a language model of its own",
    "crossword": "its actions are structures, not numbers",
}
KNOWN_ISSUES = frozenset({"quoridor"})
SEED_PARAMETER = "rng_seed"
"""What OpenSpiel calls the seed of a game that samples inside itself."""
MAX_NAME_CHARS = 4096
MAX_OBSERVATION_SIZE = 1 << 24
MAX_INFORMATION_STATE_SIZE = 4096
"""Up to this size a seat of a game with hidden information is shown all that it has seen, not only what it sees."""

_NAME = re.compile(r"([A-Za-z0-9_]+)(\(.*\))?", flags=re.DOTALL)
_SOURCE_LINE = re.compile(r"^/\S+:\d+ ")


def load(name: str) -> Any:
    """Load `name` or `name(parameter=value,...)`; a `pyspiel.Game` that can be played."""
    short, parameters = _split(name)
    problem = type_refusal(registered_types()[short], has_parameters=bool(parameters))
    if not problem:
        if short in KNOWN_ISSUES:
            log.warning("open_spiel:%s: OpenSpiel warns that its implementation has known issues", name)
        game = _load(name)
        problem = _seed_refusal(short, game) or _size_refusal(game)
    if problem:
        raise ConfigError(f"open_spiel:{name}: {problem}")
    return game


def load_seeded(name: str, seed: int) -> Any:
    """Load a game that samples inside itself, so that the seed decides what it samples."""
    parameters = pyspiel.game_parameters_from_string(name)
    return pyspiel.load_game(parameters.pop("name"), {**parameters, SEED_PARAMETER: seed & 0x7FFFFFFF})


def registered_types() -> dict[str, Any]:
    """Every `pyspiel.GameType` by short name."""
    return {game_type.short_name: game_type for game_type in pyspiel.registered_games()}


def type_refusal(game_type: Any, *, has_parameters: bool = False) -> str:
    """Why a game of this registered type cannot be played; empty when it can."""
    if game_type.short_name in UNPLAYABLE:
        return UNPLAYABLE[game_type.short_name]
    if game_type.dynamics == pyspiel.GameType.Dynamics.MEAN_FIELD:
        return "a mean-field game has a population instead of seats"
    if not game_type.default_loadable and not has_parameters:
        names = ", ".join(sorted(game_type.parameter_specification))
        return f"needs parameters ({names}), as in {game_type.short_name}(parameter=value)"
    return ""


def is_written_in_python(short: str) -> bool:
    """Whether OpenSpiel has to import Python code before it knows the game."""
    return short.startswith("python_") or short == "chat_game"


def samples_inside(game: Any) -> bool:
    """Whether the game draws its own chance instead of listing outcomes."""
    return bool(game.get_type().chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC)


def _seed_refusal(short: str, game: Any) -> str:
    # The registered type, not the game's own: a game around a sampled game shows the inner one's parameters.
    if samples_inside(game) and SEED_PARAMETER not in registered_types()[short].parameter_specification:
        return f"it samples chance by itself and takes no {SEED_PARAMETER}, so a game could not be repeated"
    return ""


def _size_refusal(game: Any) -> str:
    actions, length = game.num_distinct_actions(), game.max_game_length()
    if actions < 1 or length < 1:
        return f"these parameters leave nothing to play ({actions} actions, at most {length} plies)"
    shape = tensor_shape(game)
    if any(size < 1 for size in shape) or prod(shape) > MAX_OBSERVATION_SIZE:
        return f"these parameters give an impossible observation {shape}"
    return ""


def tensor_shape(game: Any) -> tuple[int, ...]:
    """Shape of what a seat is shown: its information state or an observation (`shows_information_state`), else ()."""
    if shows_information_state(game):
        return tuple(game.information_state_tensor_shape())
    return tuple(game.observation_tensor_shape()) if game.get_type().provides_observation_tensor else ()


def shows_information_state(game: Any) -> bool:
    """Whether a seat is shown its information-state tensor, which recalls all that it has seen and done.

    It is where information is hidden and that tensor is small, because a network without memory cannot play Leduc
    poker from the observation, in which the bets of the first round are lost; and where there is no observation.
    """
    game_type = game.get_type()
    if not game_type.provides_information_state_tensor or not game_type.provides_observation_tensor:
        return bool(game_type.provides_information_state_tensor)
    is_hidden = bool(game_type.information == pyspiel.GameType.Information.IMPERFECT_INFORMATION)
    return is_hidden and prod(game.information_state_tensor_shape()) <= MAX_INFORMATION_STATE_SIZE


def make_observer(game: Any) -> Observer:
    """The observer of a game that has a tensor.

    It gives the numbers of `information_state_tensor` where `shows_information_state` says so, else those of
    `observation_tensor`: through a buffer where OpenSpiel can do that, which is three to ten times as fast as by way
    of a list.
    """
    size, recalls = prod(tensor_shape(game)), shows_information_state(game)
    wanted = pyspiel.IIGObservationType(perfect_recall=recalls)
    # A game written in Python makes observers of another kind.
    observer = None if hasattr(game, "make_py_observer") else game.make_observer(wanted, {})
    if observer is not None:
        native = pyspiel._Observation(game, observer)
        if native.has_tensor() and (tensor := np.frombuffer(native, np.float32)).size == size:
            return native.set_from, tensor
    method, listed = "information_state_tensor" if recalls else "observation_tensor", np.zeros(size, np.float32)

    def look(state: Any, seat: int) -> None:
        listed[:] = getattr(state, method)(seat)

    return look, listed


def _split(name: str) -> tuple[str, str]:
    match = _NAME.fullmatch(name)
    if not match or len(name) > MAX_NAME_CHARS:
        raise ConfigError(f"open_spiel:{name[:80]}: expected a name, or name(parameter=value,...)")
    short, parameters = match.group(1), match.group(2) or ""
    known = pyspiel.registered_names()
    if short not in known and is_written_in_python(short):
        import open_spiel.python.games  # noqa: F401 - registers the games written in Python

        known = pyspiel.registered_names()
    if short not in known:
        hint = did_you_mean(short, known, prefix="open_spiel:")
        raise ConfigError(f"open_spiel:{name}: OpenSpiel has no game {short!r}{hint}")
    return short, parameters


def _load(name: str) -> Any:
    try:
        with silent_stderr():
            return pyspiel.load_game(name)
    except (RuntimeError, ValueError, TypeError) as error:  # SpielError is a RuntimeError
        text = str(error).partition(" Available games")[0].strip()
        reason = "; ".join(_SOURCE_LINE.sub("", line) for line in text.splitlines()[:2])
        raise ConfigError(f"open_spiel:{name}: {reason}") from error


@contextmanager
def silent_stderr() -> Iterator[None]:
    """OpenSpiel writes warnings, and each error before it raises it, to file descriptor 2; exceptions are enough."""
    saved = os.dup(2)
    sink = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(sink, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(sink)
