"""`ludus games`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from ludus.cli.listings import games
from ludus.errors import ConfigError
from ludus.games.registry import BACKENDS, GAMES

PLUGIN = """
from ludus import GameSpec, register_backend, register_game


class Listed:
    spec = GameSpec(key="listed_game", players=2, actions=3, observation_shape=(4,), max_length=5)

    def start(self, seed):
        return None


def broken():
    return {}["heap"]


register_game("listed_game", Listed)
register_game("listed_but_broken", broken)
register_backend("listed_backend", lambda name: Listed())
"""

app = typer.Typer()
app.command()(games)


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def test_table_has_one_line_per_game_and_cuts_nothing() -> None:
    lines = run("kuhn_").splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["KEY", "open_spiel:kuhn_poker", "pgx:kuhn_poker"]
    assert lines[1].split()[1:] == ["2-10", "sequential", "yes", "imperfect", "2", "11", "yes"]
    assert lines[-1] == "2 games can be played."


def test_all_says_what_cannot_be_played_and_why() -> None:
    assert "mfg_garnet" not in run()
    assert "--all says why" in run()
    assert "open_spiel:mfg_garnet" in run("--all")
    assert "a mean-field game has a population" in run("--all")


def test_pattern_that_finds_only_refused_games_says_why() -> None:
    assert "population instead of seats" in run("mfg")


def test_wildcard_selects_a_backend() -> None:
    keys = [line.split()[0] for line in run("pgx:*").splitlines()[1:] if line]
    assert "pgx:connect_four" in keys
    assert not any(key.startswith("open_spiel:") for key in keys)


def test_json_is_one_object() -> None:
    listed = json.loads(run("--json", "--all"))
    by_key = {game["key"]: game for game in listed["games"]}
    assert by_key["pgx:connect_four"]["observation_shape"] == [6, 7, 2]
    assert "pgx:bridge_bidding" in {game["key"] for game in listed["unavailable"]}
    assert json.loads(run("--json", "kuhn"))["unavailable"] == []


def test_text_games_are_marked_and_can_be_asked_for_alone() -> None:
    rows = [line.split() for line in run("kuhn").splitlines() if ":" in line]
    words = {row[0]: row[-1] for row in rows}
    assert words["pgx:kuhn_poker"] == "no"
    assert words["open_spiel:kuhn_poker"] == words["textarena:KuhnPoker-v0"] == "yes"
    assert "pgx:kuhn_poker" not in run("kuhn", "--text")


def test_refused_text_games_come_with_their_reason() -> None:
    assert "TwentyQuestions" not in run("textarena:*")
    assert "asks a paid model over the network" in run("textarena:*", "--all")


def test_pattern_without_a_match_is_bad_input() -> None:
    with pytest.raises(ConfigError, match="no game matches 'nonsense'"):
        CliRunner().invoke(app, ["nonsense"], catch_exceptions=False)


def test_help_has_an_example() -> None:
    assert "ludus games poker" in run("--help")


def test_importing_the_command_is_light() -> None:
    program = (
        "import sys, ludus.cli.listings; print([m for m in ('jax', 'pyspiel', 'pgx', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_games_of_a_plugin_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for registry in (GAMES, BACKENDS):
        monkeypatch.setattr(registry, "added", {})
    file = tmp_path / "listed.py"
    file.write_text(PLUGIN)
    assert "listed_game" not in run()
    lines = run("listed", "--plugin", str(file)).splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["listed_backend:...", "listed_game"]
    assert "could not be made: KeyError: 'heap' (" in run("listed", "--all")
