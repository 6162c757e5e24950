"""Text games by key, and their listing."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from ludus.errors import ConfigError
from ludus.games import (
    TextGame,
    available_games,
    available_text_games,
    make_game,
    make_text_game,
    register_text_game,
    registry,
)
from ludus.games.text_open_spiel import OpenSpielTextGame


@pytest.fixture
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.TEXT_GAMES, "added", {})


class Own(OpenSpielTextGame):
    """A game of OpenSpiel under another key."""

    def __init__(self, key: str) -> None:
        super().__init__("tic_tac_toe")
        self.spec = replace(self.spec, key=key)


@pytest.mark.parametrize(
    "key",
    [
        "open_spiel:go(board_size=5)",
        "textarena:Nim-v0",
        "textarena:TicTacToe-v0-train",
        "textarena:Poker-v0(players=4)",
    ],
)
def test_text_game_calls_itself_by_the_key_that_made_it(key: str) -> None:
    game = make_text_game(key)
    assert isinstance(game, TextGame)
    assert game.spec.key == key


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("pgx:chess", "'pgx' has no games of words; expected open_spiel or textarena; did you mean open_spiel:chess"),
        ("TicTacToe-v0", "did you mean textarena:TicTacToe-v0"),
        ("textarena:TicTacTo-v0", "TextArena has no such game; did you mean textarena:TicTacToe-v0"),
        ("textarena:", "expected an id"),
        ("textarena:Nim-v0(players=3)", "is for 2 players"),
        ("textarena:Poker-v0(players=99)", "is for 2 to 15 players"),
        ("textarena:Nim-v0(chips=3)", "expected an id, or id"),
        ("", "no such text game"),
    ],
)
def test_bad_key_is_one_clear_sentence(key: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        make_text_game(key)
    assert len(caught.value.problems) == 1


@pytest.mark.usefixtures("clean_registry")
def test_registered_text_game_is_made_and_listed() -> None:
    register_text_game("my_talk", lambda: Own("my_talk"))
    assert make_text_game("my_talk").spec.players == 2
    assert [(game.players, game.in_words) for game in available_text_games() if game.key == "my_talk"] == [("2", True)]


@pytest.mark.usefixtures("clean_registry")
def test_registered_text_game_must_know_its_own_key() -> None:
    register_text_game("my_talk", lambda: Own("other"))
    with pytest.raises(ConfigError, match="key='other'"):
        make_text_game("my_talk")
    assert [game.ok for game in available_text_games() if game.key == "my_talk"] == [False]


def test_name_that_would_look_like_a_backend_is_refused() -> None:
    with pytest.raises(ConfigError, match="without a colon"):
        register_text_game("textarena:mine", lambda: Own("textarena:mine"))


def test_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ludus.extras.find_spec", lambda package: None)
    with pytest.raises(ConfigError, match=r"it needs textarena; install with: pip install 'ludus-rl\[llm\]'$"):
        make_text_game("textarena:Nim-v0")
    assert [game.key for game in available_text_games() if not game.ok] == ["textarena:*"]


def test_listing_says_what_can_be_played_in_words() -> None:
    listings = {game.key: game for game in (*available_games(), *available_text_games())}
    assert listings["open_spiel:chess"].in_words
    assert not listings["pgx:chess"].in_words
    assert listings["textarena:LiarsDice-v0"].players == "2-15"
    assert listings["textarena:Debate-v0"].reason.startswith("asks a paid model")
    assert "textarena:Nim-v0-train" not in listings


def test_listing_loads_neither_text_arena_nor_nltk() -> None:
    program = (
        "import sys, ludus.games as g; g.available_text_games(); "
        "print([m for m in ('textarena', 'nltk', 'torch', 'pyspiel') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert done.stderr == ""


@pytest.mark.usefixtures("clean_registry")
@pytest.mark.parametrize("key", ["textarena:TicTacToe-v0", "own_words"])
def test_a_game_of_words_is_refused_for_networks_with_what_it_needs(key: str) -> None:
    register_text_game("own_words", lambda: Own("own_words"))
    with pytest.raises(
        ConfigError, match=f"^game {key}: is a game of words, which language models play; write policy.model$"
    ):
        make_game(key)
