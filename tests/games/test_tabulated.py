"""Tabulated games are OpenSpiel's games: played in lock-step with pyspiel, on the device."""

from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
import pyspiel
import pytest

from ludus.errors import ConfigError
from ludus.games import make_game
from ludus.games.registry import find_device_game
from ludus.games.tabulated import Tabulated, TabulatedEnv
from ludus.games.tabulating import tabulate

GAMES = [
    "kuhn_poker",
    "leduc_poker",
    "leduc_poker(suit_isomorphism=true)",
    "liars_dice(dice_sides=3)",
    "kuhn_poker(players=3)",
    "matrix_rps",
    "first_sealed_auction(max_value=4)",
    "repeated_game(stage_game=matrix_pd(),num_repetitions=3)",
    "goofspiel(num_cards=3,imp_info=true,players=3)",
]
BATCH = 100


@dataclass
class Reference:
    """A game on the host, simultaneous moves gathered one seat after the other."""

    state: Any
    chosen: list[int] = field(default_factory=list)

    @property
    def seat(self) -> int:
        if not self.state.is_simultaneous_node():
            return int(self.state.current_player())
        able = [seat for seat in range(self.state.num_players()) if self.state.legal_actions(seat)]
        return able[len(self.chosen)]

    def act(self, action: int) -> None:
        if not self.state.is_simultaneous_node():
            self.state.apply_action(action)
            return
        self.chosen.append(action)
        if len(self.chosen) == self.state.num_players():
            self.state.apply_actions(self.chosen)
            self.chosen = []

    def sees(self) -> list[float]:
        is_hidden = self.state.get_game().get_type().information == pyspiel.GameType.Information.IMPERFECT_INFORMATION
        look = self.state.information_state_tensor if is_hidden else self.state.observation_tensor
        return list(look(self.seat))


def settled(state: Any) -> list[tuple[Any, float]]:
    """Everything that chance can make of a state."""
    if not state.is_chance_node():
        return [(state, 1.0)]
    return [
        (after, chance * probability)
        for action, chance in state.chance_outcomes()
        for after, probability in settled(state.child(action))
    ]


def follow(tree: Tabulated, first: int, node: int, reference: Reference) -> None:
    """Let chance on the host do what it did on the device."""
    outcomes = settled(reference.state)
    assert tree.siblings[node] == len(outcomes)
    reference.state, probability = outcomes[node - first]
    assert tree.chance[node] == pytest.approx(probability, abs=1e-12)


@pytest.mark.parametrize("name", GAMES)
def test_a_tabulated_game_says_what_pyspiel_says_at_every_step(name: str) -> None:
    tree, game = tabulate(name), pyspiel.load_game(name)
    env, rng = TabulatedEnv(tree), np.random.default_rng(1)
    begin, step = jax.jit(jax.vmap(env.init)), jax.jit(jax.vmap(env.step))
    states = begin(jax.random.split(jax.random.key(0), BATCH))
    references = [Reference(game.new_initial_state()) for _ in range(BATCH)]
    totals, first, going = np.zeros((BATCH, game.num_players())), np.zeros(BATCH, np.int64), set(range(BATCH))
    for ply in range(100):
        shown: Any = jax.device_get(states)
        actions = np.zeros(BATCH, np.int32)
        for one in sorted(going):
            reference = references[one]
            if not reference.chosen:
                follow(tree, first[one], shown.node[one], reference)
            totals[one] += shown.rewards[one]
            assert np.allclose(totals[one], reference.state.returns(), atol=1e-5)
            assert shown.terminated[one] == reference.state.is_terminal()
            assert not shown.truncated[one]
            if reference.state.is_terminal():
                going.remove(one)
                continue
            assert shown.current_player[one] == reference.seat
            legal = reference.state.legal_actions(reference.seat)
            assert np.flatnonzero(shown.legal_action_mask[one]).tolist() == legal
            assert np.array_equal(shown.observation[one].ravel(), np.array(reference.sees(), np.float32))
            actions[one] = rng.choice(legal)
            reference.act(int(actions[one]))
            first[one] = tree.first[shown.node[one], actions[one]]
        if not going:
            return
        states = step(states, actions, jax.random.split(jax.random.key(ply + 1), BATCH))
    pytest.fail("games do not end")


@pytest.mark.parametrize("name", GAMES)
def test_what_is_drawn_has_the_probabilities_of_chance(name: str) -> None:
    tree = tabulate(name)
    drawn = tree.accept.astype(np.float64) / tree.siblings
    np.add.at(drawn, tree.alias, (1.0 - tree.accept) / tree.siblings)
    assert np.abs(drawn - tree.chance).max() < 1e-7


def test_uneven_chance_comes_about_as_often_as_it_should() -> None:
    tree = tabulate("leduc_poker(suit_isomorphism=true)")
    width, draws = int(tree.siblings[0]), 20_000
    keys = jax.random.split(jax.random.key(3), draws)
    nodes = np.asarray(jax.jit(jax.vmap(TabulatedEnv(tree).init))(keys).node)
    expected = tree.chance[:width] * draws
    assert len(set(expected.round())) > 1
    surprise = ((np.bincount(nodes, minlength=width) - expected) ** 2 / expected).sum()
    assert surprise < 26.1  # chi-square, 8 degrees, p = 0.001


def test_a_seat_sees_something_else_in_every_information_set_of_leduc() -> None:
    for views in tabulate("leduc_poker").information_sets:
        assert len(views) == len(set(views.values())) == 468


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("open_spiel:pig", "its tree has more than 200,000 histories; write topology: split"),
        ("open_spiel:tarok", "draws its own chance, .*; write topology: split"),
        ("open_spiel:coin_game", "no observation tensor"),
    ],
)
def test_a_game_that_cannot_be_tabulated_is_refused_with_the_reason(key: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        find_device_game(make_game(key))


def test_the_limit_counts_chance_too() -> None:
    assert tabulate("kuhn_poker", most_histories=58).histories == 58
    with pytest.raises(ConfigError, match="more than 57 histories"):
        tabulate("kuhn_poker", most_histories=57)
