"""What is known about TextArena's games without loading TextArena: ids, numbers of players, which cannot be played.

Invariant: quick and without side effects: ids are read from TextArena's source, nothing of it is imported. A game that
TextArena has but ludus cannot play is added to `REFUSED`; one that is not for two players to `PLAYERS`.
"""

from __future__ import annotations

import ast
import os
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

VARIANTS = ("-train", "-raw")
"""Endings of ids that are the same game, told with other words."""

ALONE = frozenset(
    {
        "BabyAiText",
        "Bandit",
        "Blackjack",
        "Countdown",
        "Crosswords",
        "Cryptarithm",
        "FifteenPuzzle",
        "FrozenLake",
        "Game2048",
        "GuessTheNumber",
        "GuessWho",
        "Hangman",
        "Klondike",
        "LightsOut",
        "LogicPuzzle",
        "Mastermind",
        "Minesweeper",
        "PegJump",
        "RushHour",
        "Secretary",
        "Set",
        "Slitherlink",
        "Sokoban",
        "Sudoku",
        "ThreeCardMonte",
        "TowerOfHanoi",
        "TwentyQuestions",
        "UltimateTexasHoldem",
        "WordLadder",
        "WordSearch",
        "Wordle",
    }
)
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
