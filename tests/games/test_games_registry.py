"""Games by key."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ludus.config import build_config, resolve
from ludus.errors import ConfigError
from ludus.games import Game, available_games, make_game, register_game, registry
from ludus.games.open_spiel import OpenSpielGame
from ludus.games.protocol import GameSpec, Position
from ludus.orchestrator import check_parts
from ludus.plugins import Registry


class Renamed:
    """A game of OpenSpiel under another key."""

    def __init__(self, key: str) -> None:
        inner = OpenSpielGame("tic_tac_toe")
        self.spec = GameSpec(key=key, players=2, actions=9, observation_shape=(3, 3, 3), max_length=9)
        self.start_inner = inner.start

    def start(self, seed: int) -> Position:
        return self.start_inner(seed)


@pytest.fixture
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what plugins of other tests have registered in this process."""
    for kind in (registry.GAMES, registry.BACKENDS):
        monkeypatch.setattr(kind, "added", {})


@pytest.mark.parametrize(
    "key",
    [
        "open_spiel:connect_four",
        "pgx:connect_four",
        "open_spiel:go(board_size=5)",
        "pettingzoo:mpe.simple_spread_v3(N=2)",
    ],
)
def test_game_calls_itself_by_the_key_that_made_it(key: str) -> None:
    game = make_game(key)
    assert isinstance(game, Game)
    assert game.spec.key == key


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("connect_four", "did you mean open_spiel:connect_four or pgx:connect_four"),
        (
            "spiel:chess",
            "unknown backend 'spiel'; expected chess or open_spiel or pettingzoo or pgx; did you mean open_spiel:chess",
        ),
        ("open_spiel:ches", "did you mean open_spiel:chess"),
        ("pgx:goo_9x9", "did you mean pgx:go_9x9"),
        ("", "no such game"),
        ("qqqqqq", "`ludus games` lists them"),
    ],
)
@pytest.mark.usefixtures("clean_registry")
def test_unknown_key_names_the_nearest(key: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_game(key)


@pytest.mark.usefixtures("clean_registry")
def test_registered_game_is_made_and_listed() -> None:
    register_game("my_game", lambda: Renamed("my_game"))
    assert make_game("my_game").spec.actions == 9
    assert [listing.players for listing in available_games() if listing.key == "my_game"] == ["2"]


@pytest.mark.usefixtures("clean_registry")
def test_registered_game_must_know_its_own_key() -> None:
    register_game("my_game", lambda: Renamed("other"))
    with pytest.raises(ConfigError, match="key='other'"):
        make_game("my_game")
    assert [listing.ok for listing in available_games() if listing.key == "my_game"] == [False]


@pytest.mark.parametrize("name", ["", "open_spiel:mine"])
def test_name_that_would_look_like_a_backend_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="without a colon"):
        register_game(name, lambda: Renamed(name))


def test_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ludus.extras.find_spec", lambda package: None)
    for key in ("open_spiel:chess", "pettingzoo:classic.chess_v6", "pgx:chess"):
        with pytest.raises(ConfigError, match=r"pip install 'ludus-rl\[games\]'"):
            make_game(key)
    refused = [listing for listing in available_games() if not listing.ok]
    keys = ["chess:openings", "chess:standard", "open_spiel:*", "pettingzoo:*", "pgx:*"]
    assert [listing.key for listing in refused] == keys


def test_listing_is_complete_and_says_why_not() -> None:
    listings = {listing.key: listing for listing in available_games()}
    assert len(listings) > 140
    assert listings["open_spiel:mfg_garnet"].reason.startswith("a mean-field game")
    assert listings["open_spiel:leduc_poker"].players == "2-10"
    assert listings["open_spiel:connect_four"].observation_shape == (3, 6, 7)
    assert listings["open_spiel:morpion_solitaire"].observation_shape == ()
    assert listings["pgx:2048"].has_chance


def test_listing_agrees_with_the_games(monkeypatch: pytest.MonkeyPatch) -> None:
    for known in Registry.every:  # what other tests of this process have loaded, such as a back end of their own
        monkeypatch.setattr(known, "added", {})
    for listing in available_games():
        if listing.ok and listing.key != "open_spiel:colored_trails":
            spec = make_game(listing.key).spec
            assert (listing.actions, listing.observation_shape) == (spec.actions, spec.observation_shape)
            assert listing.has_chance == spec.has_chance
            assert (listing.dynamics == "simultaneous") == spec.is_simultaneous


def test_importing_and_listing_games_does_not_load_jax() -> None:
    program = "import sys, ludus.games as g; a = 'pyspiel' in sys.modules; g.available_games(); print(a, 'jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
    assert done.stderr == ""


class NoText:
    """A position that cannot be shown."""

    def acting(self) -> tuple[int, ...]:
        return (0,)


@pytest.mark.usefixtures("clean_registry")
def test_a_plugins_game_whose_positions_lack_methods_is_refused_before_the_run() -> None:
    spec = GameSpec(key="mute", players=2, actions=2, observation_shape=(2,), max_length=4)
    register_game("mute", type("Mute", (), {"spec": spec, "start": lambda self, seed: NoText()}))
    config = resolve(build_config({"name": "x", "games": ["mute"], "topology": "split"}))
    with pytest.raises(ConfigError, match=r"game mute: start\(\) gives a NoText, which lacks legal\(\), observe\(\)"):
        check_parts(config)


@pytest.mark.usefixtures("clean_registry")
def test_what_is_no_game_is_refused_by_name() -> None:
    register_game("list", list)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="game list: its factory gives a list, which lacks spec, start"):
        make_game("list")
    register_game("loose", type("Loose", (), {"spec": "loose", "start": lambda self, seed: None}))
    with pytest.raises(ConfigError, match="whose spec is a str; expected a GameSpec"):
        make_game("loose")
