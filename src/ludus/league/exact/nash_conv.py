"""How far one network is from an equilibrium of a small game, exactly: for any number of seats, by whole trees.

Two seats and zero sum: by the sequence form. Others: by OpenSpiel's best responses, one for each seat. Invariant: the
policy is what masked sampling at temperature 1 plays, as in `network_policies`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
import pyspiel
from open_spiel.python import policy as spiel_policy
from open_spiel.python.algorithms import exploitability

from ludus.errors import ConfigError
from ludus.games import open_spiel_loading as loading
from ludus.games.sequence_form_building import build_sequence_form
from ludus.games.tabulated import Tabulated
from ludus.games.tabulating import tabulate
from ludus.league.exact.network_policies import NetworkPolicies, Weights
from ludus.policies import PolicyShape


class NetworkNashConv:
    """The tree of one game, built at the first network."""

    def __init__(self, game: str, *, most_histories: int) -> None:
        """`game` is OpenSpiel's name of it."""
        self._game, self._most = game, most_histories
        self._networks: dict[str, NetworkPolicies] = {}

    def nash_conv(self, weights: Weights, shape: PolicyShape) -> float:
        """The sum over seats of what a best response gains; 0 in an equilibrium.

        Raises:
            ConfigError: the tree is too large, or the network sees something else.
        """
        if shape.build().memory_size:
            raise ConfigError(f"open_spiel:{self._game}: a network with memory plays by more than what it sees now")
        game, kind = self._loaded, self._loaded.get_type()
        if game.num_players() == 2 and kind.utility == pyspiel.GameType.Utility.ZERO_SUM:
            return self._by_sequence_form(weights, shape)
        if kind.dynamics != pyspiel.GameType.Dynamics.SEQUENTIAL:
            raise ConfigError(f"open_spiel:{self._game}: seats move at once, and it is not for two with zero sum")
        reading = _NetworkPolicy(game, self._tree, weights, shape)
        return max(0.0, float(exploitability.nash_conv(game, reading)))

    def _by_sequence_form(self, weights: Weights, shape: PolicyShape) -> float:
        key = repr(shape)
        if key not in self._networks:
            form = build_sequence_form(self._game, most_histories=self._most)
            self._networks[key] = NetworkPolicies(form, self._tree, shape)
        networks = self._networks[key]
        return max(0.0, networks.form.nash_conv(*networks.plans(weights)))

    @cached_property
    def _loaded(self) -> Any:
        return loading.load(self._game)

    @cached_property
    def _tree(self) -> Tabulated:
        return tabulate(self._game, most_histories=self._most)


class _NetworkPolicy(spiel_policy.Policy):  # type: ignore[misc]
    """What a network plays, as OpenSpiel asks for it."""

    def __init__(self, game: Any, tree: Tabulated, weights: Weights, shape: PolicyShape) -> None:
        super().__init__(game, list(range(game.num_players())))
        self._rows = tree.information_sets
        logits = np.asarray(shape.build().apply(weights, jnp.asarray(tree.observations))[0], np.float64)
        masked = np.where(tree.legal, logits, -np.inf)
        shares = np.exp(masked - masked.max(axis=1, keepdims=True))
        self._shares = shares / shares.sum(axis=1, keepdims=True)

    def action_probabilities(self, state: Any, player_id: int | None = None) -> dict[int, float]:
        """The share of each legal action."""
        seat = state.current_player() if player_id is None else player_id
        row = self._shares[self._rows[seat][state.information_state_string(seat)]]
        return {action: float(row[action]) for action in state.legal_actions(seat)}
