"""An empirical game: what policies got against each other, for any number of players, as tables for meta-solvers.

Each player has a population, or all share one (`symmetric`): then every seat may hold every policy, and tables are
averaged over the seatings of the same policies, each seating counting alike however often it was played.

Uncertainty of a mean over n games with a sum of squared deviations D is `sqrt(D + spread^2) / n`: the usual standard
error, as if the games had deviated by `spread^2` more, so that three wins in a row are not certainty. Without games it
is `sqrt(2) spread`, as of half a game. Invariant: results give the same tables, bit for bit, in whatever order and
batches they arrive. Each result must arrive once: a table cannot tell a match that is reported twice from two matches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.errors import LudusError
from ludus.league.payoffs.cells import FIELDS, PayoffCell, mean_returns
from ludus.league.payoffs.normal_form import Array, seatings, symmetrised

SPREADS = {"score": 0.5, "win": 0.5, "lose": 0.5}
"""Standard deviation of one game before any was played; `payoff_spread` for the other fields."""
SUM_TOLERANCE = 1e-6

Profile = tuple[int, ...]
"""Index of the policy in each seat."""


class Populations:
    """Names and indices of policies: one population per player, or one that all players share.

    A policy keeps its index for good; populations only grow. Mutable; owned by its empirical game.
    """

    def __init__(self, players: int, *, shared: bool) -> None:
        self.players = players
        self.shared = shared
        self._indices: list[dict[str, int]] = [{} for _ in range(1 if shared else players)]

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """The policies of each player in the order they joined."""
        return tuple(tuple(self._of(player)) for player in range(self.players))

    @property
    def shape(self) -> tuple[int, ...]:
        """How many policies each player has."""
        return tuple(len(self._of(player)) for player in range(self.players))

    def add(self, policy: str, player: int) -> int:
        """Let a policy join and return its index; adding it again changes nothing."""
        population = self._of(player)
        return population.setdefault(policy, len(population))

    def profile(self, seats: Sequence[str]) -> Profile:
        """Index of the policy in each seat."""
        if len(seats) != self.players:
            raise LudusError(f"a match has {self.players} seats, not {len(seats)}: {' - '.join(seats)}")
        for player, policy in enumerate(seats):
            if policy not in self._of(player):
                raise LudusError(f"policy {policy} is not in the population of player {player}; add it first")
        return tuple(self._of(player)[policy] for player, policy in enumerate(seats))

    def seats(self, profile: Sequence[int]) -> tuple[str, ...]:
        """Name of the policy in each seat."""
        names = self.names
        return tuple(names[player][index] for player, index in enumerate(profile))

    def state(self) -> list[list[str]]:
        """JSON: the policies of each player, one list if they are shared."""
        return [list(population) for population in self._indices]

    def load_state(self, state: Sequence[Sequence[str]]) -> None:
        """Replace all policies."""
        self._indices = [{name: index for index, name in enumerate(names)} for names in state]

    def _of(self, player: int) -> dict[str, int]:
        if not 0 <= player < self.players:
            raise LudusError(f"there is no player {player}; they are numbered from 0 to {self.players - 1}")
        return self._indices[0 if self.shared else player]


class EmpiricalGame:
    """Populations and results. Mutable; belongs to one thread."""

    def __init__(
        self,
        players: int,
        *,
        symmetric: bool = False,
        constant_sum: float | None = None,
        custom: Sequence[str] = (),
        payoff_spread: float = 1.0,
    ) -> None:
        """Begin without policies.

        Args:
            players: How many sides a match has, at least 2; a team is one side.
            symmetric: Whether all players draw from one population.
            constant_sum: What the returns of a match add up to, if it is always the same. Matches are checked, and in
                a symmetric game nobody needs to play the mirror match.
            custom: Names of further fields that every match reports.
            payoff_spread: Believed standard deviation of one game's payoff and custom fields before any was played.
        """
        if players < 2:
            raise LudusError(f"an empirical game has at least 2 players, not {players}")
        if {*custom} & {*FIELDS} or len({*custom}) != len(custom):
            raise LudusError(f"custom fields need names of their own, besides {', '.join(FIELDS)}; not {list(custom)}")
        if not 0 < payoff_spread < np.inf:
            raise LudusError(f"payoff_spread must be positive and finite, not {payoff_spread}")
        self.players = players
        self.symmetric = symmetric
        self.constant_sum = constant_sum
        self.custom = tuple(custom)
        self.payoff_spread = payoff_spread
        self.populations = Populations(players, shared=symmetric)
        self._cells: defaultdict[Profile, PayoffCell] = defaultdict(lambda: PayoffCell(players, custom))
        self._exact: dict[Profile, tuple[float, ...]] = {}

    def add_policy(self, policy: str, player: int = 0) -> int:
        """Let a policy join a player's population (that of all, in a symmetric game), and return its index."""
        return self.populations.add(policy, player)

    def record(self, seats: Sequence[str], returns: Sequence[float], **custom: Sequence[float]) -> None:
        """Count one match: the policy in each seat and what each seat got.

        In a symmetric game, seats with the same policy get their mean: they are one player who sat twice.
        """
        profile = self.populations.profile(seats)
        reported: dict[str, Sequence[float]] = {"payoff": returns, **custom}
        self._check(seats, reported, self.custom)
        if self.symmetric:
            reported = {field: _by_policy(seats, values) for field, values in reported.items()}
        self._cells[profile].add(reported)

    def record_exact(self, seats: Sequence[str], payoffs: Sequence[float]) -> None:
        """Say what each seat gets on average, computed rather than played: certain, whatever matches say."""
        profile = self.populations.profile(seats)
        self._check(seats, {"payoff": payoffs}, ())
        values = tuple(float(value) for value in (_by_policy(seats, payoffs) if self.symmetric else payoffs))
        if self._exact.setdefault(profile, values) != values:
            raise LudusError(f"{' - '.join(seats)} is known to pay {self._exact[profile]}, not {values}")

    def merge(self, other: EmpiricalGame) -> None:
        """Count all matches of another table of the same kind. Its policies must be known here; indices may differ."""
        if self._kind() != other._kind():
            raise LudusError(f"tables of different kinds cannot be merged: {self._kind()} and {other._kind()}")
        places = {
            profile: self.populations.profile(other.populations.seats(profile))
            for profile in (*other._cells, *other._exact)
        }
        for profile, payoffs in other._exact.items():
            self.record_exact(self.populations.seats(places[profile]), payoffs)
        for profile, cell in other._cells.items():
            self._cells[places[profile]].merge(cell)

    def cells(self) -> Iterator[tuple[Profile, PayoffCell]]:
        """What was played, by profile."""
        return iter(self._cells.items())

    def games(self) -> NDArray[np.int64]:
        """Matches played with each profile, seat by seat. `[a1, ..., an]`."""
        counts = np.zeros(self.populations.shape, np.int64)
        for profile, cell in self._cells.items():
            counts[profile] = cell.games
        return counts

    def known_exactly(self) -> NDArray[np.bool_]:
        """Profiles whose payoffs are certain: computed ones, and mirror matches of constant sum. `[a1, ..., an]`."""
        known = np.zeros(self.populations.shape, np.bool_)
        for profile in self._certain():
            known[profile] = True
        return known

    def mean(self, field: str = "payoff") -> Array:
        """The table of a field: what each player gets on average, NaN where nothing is known. `[players, a1, ...]`."""
        means = self._each(lambda cell, player: cell.moments(field, player).mean, np.nan, field)
        if field == "payoff":
            for profile, payoffs in self._certain().items():
                for player, payoff in enumerate(payoffs):
                    means[(player, *profile)] = payoff
        return symmetrised(means) if self.symmetric else means

    def standard_error(self, field: str = "payoff") -> Array:
        """Uncertainty of `mean`, finite everywhere, 0 where it is exact. `[players, a1, ..., an]`."""
        errors = self.seat_errors(field)
        if not self.symmetric:
            return errors
        return np.asarray(np.sqrt(symmetrised(errors**2) / seatings(errors.shape[1:])))

    def seat_errors(self, field: str = "payoff") -> Array:
        """Uncertainty of each seating's own mean, before seatings are averaged. `[players, a1, ..., an]`."""
        spread = SPREADS.get(field, self.payoff_spread)
        squares = self._each(lambda cell, player: cell.moments(field, player).deviations, 0.0, field)
        errors = np.sqrt((squares + spread**2) / np.maximum(self.games(), 1) / evidence(self.games()))
        return np.where(self.known_exactly(), 0.0, errors) if field == "payoff" else errors

    def half_width(self, field: str = "payoff", *, level: float = 0.95) -> Array:
        """Half the width of a confidence interval around `mean`, by Student's t; infinite where it was never played."""
        from scipy.special import stdtrit  # here, so that the league stays light to import

        games = np.broadcast_to(self.games().astype(np.float64), (self.players, *self.populations.shape))
        freedom = symmetrised(games) if self.symmetric else games
        width = self.standard_error(field) * stdtrit(np.maximum(freedom, 0.5), (1.0 + level) / 2.0)
        return np.where((freedom > 0) | (width == 0), width, np.inf)

    def state(self) -> dict[str, Any]:
        """JSON from which `from_state` restores the table exactly; equal tables have equal states."""
        return {
            **self._kind(),
            "populations": self.populations.state(),
            "cells": [[list(profile), cell.state()] for profile, cell in sorted(self._cells.items())],
            "exact": [[list(profile), list(payoffs)] for profile, payoffs in sorted(self._exact.items())],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> EmpiricalGame:
        """Restore a table."""
        game = cls(**{name: state[name] for name in _KIND})
        game.populations.load_state(state["populations"])
        game._cells.update((tuple(profile), PayoffCell.from_state(cell)) for profile, cell in state["cells"])
        game._exact = {tuple(profile): tuple(payoffs) for profile, payoffs in state["exact"]}
        return game

    def _kind(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _KIND} | {"custom": list(self.custom)}

    def _each(self, read: Callable[[PayoffCell, int], float], missing: float, field: str) -> Array:
        """A number for every player and profile. `[players, a1, ..., an]`."""
        if field not in (*FIELDS, *self.custom):
            raise LudusError(f"there is no field {field!r}; there are {', '.join((*FIELDS, *self.custom))}")
        values = np.full((self.players, *self.populations.shape), missing)
        for profile, cell in self._cells.items():
            for player in range(self.players):
                values[(player, *profile)] = read(cell, player)
        return values

    def _certain(self) -> dict[Profile, tuple[float, ...]]:
        """Payoffs that no match need tell: computed ones, and those of one policy in every seat, by symmetry."""
        if not self.symmetric or self.constant_sum is None:
            return self._exact
        equal = (self.constant_sum / self.players,) * self.players
        return {(index,) * self.players: equal for index in range(self.populations.shape[0])} | self._exact

    def _check(self, seats: Sequence[str], fields: Mapping[str, Sequence[float]], custom: Sequence[str]) -> None:
        match = " - ".join(seats)
        if {*fields} != {"payoff", *custom}:
            raise LudusError(
                f"{match}: a match reports returns and {list(custom)}, not {sorted({*fields} - {'payoff'})}"
            )
        for field, values in fields.items():
            if len(values) != self.players or not all(isfinite(value) for value in values):
                raise LudusError(f"{match}: {field} must be {self.players} finite numbers, not {list(values)}")
        total = sum(fields["payoff"])
        if self.constant_sum is not None and abs(total - self.constant_sum) > SUM_TOLERANCE:
            raise LudusError(f"{match}: returns must add up to {self.constant_sum}, but these do to {total}")


def evidence(games: NDArray[np.int64]) -> Array:
    """How many games a mean rests on; none count as half a one, so that uncertainty is finite."""
    return np.maximum(games, 0.5)


_KIND = ("players", "symmetric", "constant_sum", "custom", "payoff_spread")


def _by_policy(seats: Sequence[str], values: Sequence[float]) -> list[float]:
    means = mean_returns(seats, values)
    return [means[policy] for policy in seats]
