"""What a node lacks is named, with what needs it."""

import pytest

from ludus.explore.node_parts import node_problem


def test_packages_are_named_with_the_game_or_player_that_needs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = ["policy.network", "game open_spiel:kuhn_poker", "game nim:12", "player random", "player mcts-25"]
    assert node_problem(parts) == ""
    monkeypatch.setattr("ludus.extras.is_installed", lambda package: package not in ("ludus_chess", "bitbully"))
    assert node_problem([*parts, "game chess:standard"]).startswith("game chess:standard needs ludus-chess; install")
    assert node_problem([*parts, "player solver"]).startswith("player solver needs bitbully; install with: pip install")


def test_an_engine_is_named_with_where_it_was_looked_for() -> None:
    said = node_problem(["player uci:no_such_engine?nodes=1"])
    assert said.startswith("'uci:no_such_engine?nodes=1': no program 'no_such_engine' on PATH")
