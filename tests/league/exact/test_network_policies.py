"""What is computed of networks is what OpenSpiel computes when it asks them at every state."""

from typing import Any

import jax
import numpy as np
import pyspiel
import pytest
from open_spiel.python import policy
from open_spiel.python.algorithms import expected_game_score, exploitability

from ludus.config import MlpConfig
from ludus.errors import ConfigError
from ludus.games import make_game
from ludus.games.sequence_form_building import build_sequence_form, load_turn_based
from ludus.games.tabulating import tabulate
from ludus.league.exact.network_policies import NetworkPolicies
from ludus.policies import PolicyShape

GAMES = ["kuhn_poker", "leduc_poker", "liars_dice(dice_sides=3)", "goofspiel(num_cards=3,imp_info=true)", "matrix_rps"]


def shape_for(name: str) -> PolicyShape:
    spec = make_game(f"open_spiel:{name}").spec
    return PolicyShape(
        network=MlpConfig(hidden=(16, 16)),
        observation_shape=spec.observation_shape,
        actions=spec.actions,
        layout="channels_first",
        games=(spec.key,),
    )


def make_weights(shape: PolicyShape, seed: int) -> dict[str, np.ndarray]:
    """A network that is far from uniform."""
    weights = {name: np.array(tensor) for name, tensor in shape.build().init(seed).items()}
    weights["heads.policy.kernel"] *= 300.0
    weights["heads.policy.bias"] += np.random.default_rng(seed).normal(size=shape.actions).astype(np.float32)
    return weights


class NetworkPolicy(policy.Policy):
    """The network as OpenSpiel wants it: asked state by state, outside of ludus's tables."""

    def __init__(self, game: Any, shape: PolicyShape, weights: Any) -> None:
        super().__init__(game, [0, 1])
        self._apply, self._weights = jax.jit(shape.build().apply), weights
        self._known: dict[str, dict[int, float]] = {}

    def action_probabilities(self, state: Any, player_id: int | None = None) -> dict[int, float]:
        seat = state.current_player() if player_id is None else player_id
        knows = state.information_state_string(seat)
        if knows not in self._known:
            self._known[knows] = self._ask(state, seat)
        return self._known[knows]

    def _ask(self, state: Any, seat: int) -> dict[int, float]:
        board = state.simultaneous_game_state() if hasattr(state, "simultaneous_game_state") else state
        kind = board.get_game().get_type().information
        is_hidden = kind == pyspiel.GameType.Information.IMPERFECT_INFORMATION
        seen = board.information_state_tensor(seat) if is_hidden else board.observation_tensor(seat)
        logits, _ = self._apply(self._weights, np.array([seen], np.float32))
        legal = state.legal_actions(seat)
        chosen = np.asarray(logits, np.float64)[0, legal]
        weights = np.exp(chosen - chosen.max())
        return dict(zip(legal, weights / weights.sum(), strict=True))


@pytest.mark.parametrize("name", GAMES)
def test_payoffs_and_nash_conv_of_networks_are_those_of_open_spiel(name: str) -> None:
    form, shape = build_sequence_form(name), shape_for(name)
    reader = NetworkPolicies(form, tabulate(name), shape)
    one, other = make_weights(shape, 1), make_weights(shape, 2)
    game = load_turn_based(name)
    theirs = [NetworkPolicy(game, shape, weights) for weights in (one, other)]
    score = expected_game_score.policy_value(game.new_initial_state(), theirs)
    assert form.payoff(reader.plans(one)[0], reader.plans(other)[1]) == pytest.approx(score[0], abs=1e-6)
    conv = exploitability.nash_conv(game, theirs[0])
    assert conv > 0.1
    assert form.nash_conv(*reader.plans(one)) == pytest.approx(conv, abs=1e-6)


def test_policies_add_up_to_one_in_every_information_set() -> None:
    form, shape = build_sequence_form("leduc_poker"), shape_for("leduc_poker")
    policies = NetworkPolicies(form, tabulate("leduc_poker"), shape).policies(make_weights(shape, 3))
    for tree, played in zip(form.seats, policies, strict=True):
        assert played.dtype == np.float64
        assert np.abs(np.bincount(tree.owners, played[1:]) - 1).max() < 1e-12


def test_a_network_of_another_game_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"sees \(30,\) and has 3 actions; the game shows \(11,\) and 2"):
        NetworkPolicies(build_sequence_form("kuhn_poker"), tabulate("kuhn_poker"), shape_for("leduc_poker"))
