"""Policies of the sequence form as OpenSpiel's tabular policies, and back: for its own algorithms and for checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ludus.errors import ConfigError
from ludus.games.sequence_form import Floats, SequenceForm
from ludus.games.sequence_form_building import load_turn_based


def to_open_spiel(form: SequenceForm, policies: Sequence[Floats]) -> Any:
    """One `open_spiel.python.policy.TabularPolicy` for both seats; `policies` are `[sequences]` of each."""
    from open_spiel.python.policy import TabularPolicy

    table = TabularPolicy(load_turn_based(form.game))
    for tree, policy in zip(form.seats, policies, strict=True):
        rows = np.array([table.state_lookup[knows] for knows in tree.information_sets], np.int64)
        table.action_probability_array[rows] = 0.0
        table.action_probability_array[rows[tree.owners], tree.actions[1:]] = policy[1:]
    return table


def from_open_spiel(form: SequenceForm, seat: int, table: Any) -> Floats:
    """A seat's policy, `[sequences]`, out of a `TabularPolicy` of the same game.

    Raises:
        ConfigError: the table lacks an information set of the game.
    """
    tree = form.seats[seat]
    missing = [knows for knows in tree.information_sets if knows not in table.state_lookup]
    if missing:
        raise ConfigError(f"open_spiel:{form.game}: the policy does not know what to do at {missing[0]!r}")
    rows = np.array([table.state_lookup[knows] for knows in tree.information_sets], np.int64)
    policy = np.ones(tree.sequences)
    policy[1:] = table.action_probability_array[rows[tree.owners], tree.actions[1:]]
    return policy
