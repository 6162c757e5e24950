"""Payoffs and exploitability of networks on a small game, computed on its whole tree: nothing is played to measure.

Invariant: both are those of the policies as they sample; NashConv is that of the meta-strategy on the whole game, not
among the policies of the table.
"""

from __future__ import annotations

from itertools import product

from ludus.games.sequence_form import Floats, SequenceForm
from ludus.games.sequence_form_building import build_sequence_form
from ludus.games.tabulating import tabulate
from ludus.league.exact.network_policies import NetworkPolicies
from ludus.league.matchmaking.population import UNIFORM, label
from ludus.league.payoffs.normal_form import marginals
from ludus.policies import PolicyShape, PolicyStore
from ludus.records import PolicyRef
from ludus.runs.population.population_state import PopulationState

Plans = tuple[Floats, Floats]


class ExactMeasures:
    """Keeps the plans of all policies that it has read."""

    is_exact = True

    def __init__(self, game: str, store: PolicyStore) -> None:
        """`game` is OpenSpiel's name of it.

        Raises:
            ConfigError: it is too large, or not for two and zero-sum.
        """
        self._store = store
        self._form: SequenceForm = build_sequence_form(game)
        self._tree = tabulate(game)
        self._networks: dict[str, NetworkPolicies] = {}
        self._plans: dict[PolicyRef, Plans] = {UNIFORM: self._uniform()}

    def fill(self, state: PopulationState) -> bool:
        """Compute what is missing."""
        known, names = state.table.known_exactly(), state.table.populations.names
        for profile in product(*(range(len(of)) for of in names)):
            if known[profile] or (state.table.symmetric and len(set(profile)) == 1):
                continue
            first, second = (PolicyRef.parse(of[place]) for of, place in zip(names, profile, strict=True))
            payoff = self._form.payoff(self._plan(first)[0], self._plan(second)[1])
            state.table.record_exact((label(first), label(second)), (payoff, -payoff))
        return True

    def exploitability(self, state: PopulationState) -> dict[str, float]:
        """NashConv of the meta-strategy, and what it is worth to the first seat."""
        strategies = marginals(state.joint)
        seats = state.seats * (2 if state.table.symmetric else 1)
        first, second = (
            sum(share * self._plan(ref)[seat] for ref, share in zip(refs, strategy.tolist(), strict=True) if share > 0)
            for seat, (refs, strategy) in enumerate(zip(seats, strategies, strict=True))
        )
        return {
            "psro/nash_conv": max(0.0, self._form.nash_conv(first, second)),
            "psro/value": self._form.payoff(first, second),
        }

    def _uniform(self) -> Plans:
        first, second = (
            tree.plan_of(tree.policy_of_choices(tree.actions > -2))
            for tree in self._form.seats  # every action
        )
        return first, second

    def _plan(self, ref: PolicyRef) -> Plans:
        if ref not in self._plans:
            policy = self._store.load(ref, PolicyShape)
            key = repr(policy.shape)
            if key not in self._networks:
                self._networks[key] = NetworkPolicies(self._form, self._tree, policy.shape)
            self._plans[ref] = self._networks[key].plans(policy.weights)
        return self._plans[ref]
