"""What a network plays in every information set of a small game, as a policy of the sequence form.

With it `SeatTree.plan_of`, `SequenceForm.payoff` and `best_response` give exact payoffs between networks, and the exact
NashConv of their mixtures, without a game being played.

Invariant: a policy here is what masked sampling at temperature 1 plays, the softmax of the network's logits over the
legal actions, in float64. One pass of the network serves all information sets of both seats.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ludus.errors import ConfigError
from ludus.games.sequence_form import Floats, Indices, SeatTree, SequenceForm
from ludus.games.tabulated import Tabulated
from ludus.policies import PolicyShape

Weights = Mapping[str, Any]
"""By name; JAX or NumPy arrays."""


class NetworkPolicies:
    """Reads the policies of networks of one shape; compiled once, at the first network."""

    def __init__(self, form: SequenceForm, tree: Tabulated, shape: PolicyShape) -> None:
        """`form` and `tree` are of the same game.

        Raises:
            ConfigError: the tree does not say what is seen in each information set, or the network sees other things.
        """
        self.form = form
        self._views = tuple(
            _views(form.game, seat, trees, tree.information_sets[seat]) for seat, trees in enumerate(form.seats)
        )
        observations, network = tree.observations, shape.build()
        if observations.shape[1:] != shape.observation_shape or tree.legal.shape[1] != shape.actions:
            found = f"sees {shape.observation_shape} and has {shape.actions} actions"
            wanted = f"{observations.shape[1:]} and {tree.legal.shape[1]}"
            raise ConfigError(f"open_spiel:{form.game}: the network {found}; the game shows {wanted}")
        self._observations = jnp.asarray(observations)
        self._logits = jax.jit(lambda weights, seen: network.apply(weights, seen)[0])

    def policies(self, weights: Weights) -> tuple[Floats, Floats]:
        """What the network plays as each seat, `[sequences]`."""
        logits = np.asarray(self._logits(weights, self._observations), np.float64)
        first, second = (
            _softmax(tree, logits[views[tree.owners], tree.actions[1:]])
            for tree, views in zip(self.form.seats, self._views, strict=True)
        )
        return first, second

    def plans(self, weights: Weights) -> tuple[Floats, Floats]:
        """The plans of these policies, `[sequences]`; a mixture of networks is the same mixture of their plans."""
        (first, second), (one, other) = self.form.seats, self.policies(weights)
        return first.plan_of(one), second.plan_of(other)


def _views(game: str, seat: int, tree: SeatTree, known: Mapping[str, int]) -> Indices:
    """`[information sets]`: the row of what the seat sees in each."""
    missing = [knows for knows in tree.information_sets if knows not in known]
    if missing:
        raise ConfigError(f"open_spiel:{game}: it is not known what seat {seat} sees at {missing[0]!r}")
    return np.array([known[knows] for knows in tree.information_sets], np.int64)


def _softmax(tree: SeatTree, logits: NDArray[np.float64]) -> Floats:
    """A policy, `[sequences]`, from the logits of all sequences but the empty one."""
    policy = np.ones(tree.sequences)
    if len(tree.starts):
        weights = np.exp(logits - np.maximum.reduceat(logits, tree.starts - 1)[tree.owners])
        policy[1:] = weights / np.add.reduceat(weights, tree.starts - 1)[tree.owners]
    return policy
