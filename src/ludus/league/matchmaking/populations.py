"""Who may sit where: one population of policies per player, or one that all players share.

Invariant: a policy keeps its index for good; populations only grow.
"""

from __future__ import annotations

from collections.abc import Sequence

from ludus.errors import LudusError

Profile = tuple[int, ...]
"""Index of the policy in each seat."""


class Populations:
    """Names and indices of policies. Mutable; owned by its empirical game."""

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
