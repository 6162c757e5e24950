"""TextArena's games: what is known of them without loading TextArena, and how one is loaded.

What is known (ids, numbers of players, which cannot be played) is quick and without side effects: ids are read from
TextArena's source, nothing of it is imported. A game that TextArena has but ludus cannot play is added to `REFUSED`;
one that is not for two players to `PLAYERS`.

Games are loaded without network, without prints, and with chance that belongs to one game. TextArena draws from
Python's global `random` and seeds it. Here its modules get dice of ours in place of that module: while a game's code
runs under `throwing(dice)` they are that game's, so many games can be in flight, in threads too, and none disturbs
another. Invariant: after `load_environment`, a call under `throwing` depends on the dice alone.
"""

from __future__ import annotations

import ast
import importlib
import logging
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

from ludus.errors import ConfigError
from ludus.games.registry import did_you_mean

log = logging.getLogger(__name__)

_DICE: ContextVar[Random | None] = ContextVar("textarena_dice", default=None)

VARIANTS = ("-train", "-raw")
"""Endings of ids that are the same game, told with other words."""

_ALONE = """
BabyAiText Bandit Blackjack Countdown Crosswords Cryptarithm FifteenPuzzle FrozenLake Game2048 GuessTheNumber GuessWho
Hangman Klondike LightsOut LogicPuzzle Mastermind Minesweeper PegJump RushHour Secretary Set Slitherlink Sokoban
Sudoku ThreeCardMonte TowerOfHanoi TwentyQuestions UltimateTexasHoldem WordLadder WordSearch Wordle
"""
ALONE = frozenset(_ALONE.split())
"""Games for one player."""

PLAYERS = {
    "Briscola": (2, 4),
    "CharacterConclave": (3, 15),
    "Codenames": (4, 4),
    "Golf": (2, 4),
    "LiarsDice": (2, 15),
    "MarketEntryGame": (2, 15),
    "Poker": (2, 15),
    "PublicGoodsGame": (2, 15),
    "Santorini": (2, 3),
    "ScorableGames": (2, 15),
    "SecretMafia": (6, 15),
    "SettlersOfCatan": (4, 4),
    "Snake": (2, 9),
    "Surround": (2, 9),
    "Taboo": (4, 14),
    "ThreePlayerGOPS": (3, 3),
    "ThreePlayerIPD": (3, 3),
    "ThreePlayerTicTacToe": (3, 3),
}
"""Fewest and most players of games that are not for one or two."""

REMOTE = "asks a paid model over the network, so a seed could not give the same game"
UNREPEATABLE = "draws from NumPy's global generator, so a seed would not give the same game"
REFUSED = {
    "BabyAiText": "needs gym and a level generator that TextArena does not bring",
    "CharacterConclave": "fails at its first move in TextArena",
    "Debate": REMOTE,
    "GuessWho": REMOTE,
    "IteratedStagHunt": UNREPEATABLE,
    "Klondike": "its source in TextArena is not valid Python",
    "ScenarioPlanning": REMOTE,
    "ScorableGames": "TextArena's package lacks its game files",
    "SpellingBee": UNREPEATABLE,
    "TwentyQuestions": REMOTE,
    "UsedCar": "TextArena's package lacks its source",
    "UsedCarNegotiation": "TextArena's package lacks its instructions",
}
NEEDS_PYTHON_3_12 = frozenset({"Checkers", "Chess", "ReverseTicTacToe", "UltimateTexasHoldem"})
NEEDS_WORD_LIST = frozenset(
    {
        "Codenames",
        "DontSayIt",
        "Hangman",
        "LetterAuction",
        "WordChains",
        "WordLadder",
        "WordSearch",
        "Wordle",
    }
)


@cache
def known_ids() -> dict[str, str]:
    """The name of the game, which is that of its module, for every id that TextArena registers."""
    found = {}
    for node in ast.walk(ast.parse(_registrations())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.startswith("register"):
            options = {option.arg: option.value for option in node.keywords}
            key, entry = _text(options.get("id")), _text(options.get("entry_point"))
            has_versions = node.func.id == "register_with_versions"
            for ending in ("", *VARIANTS) if has_versions else ("",):
                found[key + ending] = module_name(entry)
    return found


def module_name(entry_point: str) -> str:
    """`TicTacToe` for `textarena.envs.TicTacToe.env:TicTacToeEnv`."""
    return entry_point.partition(":")[0].removeprefix("textarena.envs.").partition(".")[0]


def player_range(game: str) -> tuple[int, int]:
    """Fewest and most players of a game."""
    return (1, 1) if game in ALONE else PLAYERS.get(game, (2, 2))


def refusal(game: str) -> str:
    """Why a game cannot be played here; empty when it can."""
    if game in REFUSED:
        return REFUSED[game]
    if game in NEEDS_PYTHON_3_12 and sys.version_info < (3, 12):
        return "its source in TextArena needs Python 3.12"
    if game in NEEDS_WORD_LIST and not _has_word_list():
        return "needs NLTK's word lists; get them with: python -m nltk.downloader words averaged_perceptron_tagger_eng"
    return ""


def _registrations() -> str:
    spec = find_spec("textarena")
    places = spec.submodule_search_locations if spec else None
    return (Path(places[0]) / "envs" / "__init__.py").read_text(encoding="utf-8") if places else ""


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _has_word_list() -> bool:
    """Whether NLTK would find its corpus `words`, in the places where it looks."""
    places = [Path(place) for place in os.environ.get("NLTK_DATA", "").split(os.pathsep) if place]
    places += [Path.home() / "nltk_data"]
    places += [Path(sys.prefix) / inner / "nltk_data" for inner in ("", "share", "lib")]
    places += [Path(root) / "nltk_data" for root in ("/usr/share", "/usr/local/share", "/usr/lib", "/usr/local/lib")]
    return any((place / "corpora" / name).exists() for place in places for name in ("words", "words.zip"))


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
        hint = did_you_mean(id, known_ids(), prefix="textarena:")
        raise ConfigError(f"game textarena:{id}: TextArena has no such game{hint}")
    if problem := refusal(game):
        raise ConfigError(f"game textarena:{id}: {problem}")
    try:
        entry = registration(id)
        kind = _load_class(entry.entry_point)
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise ConfigError(f"game textarena:{id}: cannot be loaded ({reason})") from error
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
