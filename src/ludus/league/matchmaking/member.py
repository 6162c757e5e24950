"""A member of the pool: a frozen version, a fixed player, or the policy that is learning now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ludus.league.ratings.trueskill import Rating
from ludus.records import PolicyRef

Kind = Literal["snapshot", "fixed", "learner"]


@dataclass(slots=True, kw_only=True)
class Member:
    """Mutable; owned by its pool. `games` = wins + draws + losses + `mirror_games` + games of a single player."""

    ref: PolicyRef
    kind: Kind
    rating: Rating
    created_step: int = 0
    parent: PolicyRef | None = None
    active: bool = True
    """Whether it is still chosen as an opponent."""
    games: int = 0
    mirror_games: int = 0
    """Games in which every seat was this member; they are never rated."""
    wins: int = 0
    draws: int = 0
    losses: int = 0

    @property
    def key(self) -> str:
        """Name in tables: `main@12` for a version, the bare name for the learner and for fixed players."""
        return str(self.ref) if self.kind == "snapshot" else str(self.ref.name)

    def count(self, points: float) -> None:
        """Count a game against others: 1 for a win, 1/2 for a draw, 0 for a loss."""
        self.games += 1
        self.wins += points == 1.0
        self.draws += points == 0.5
        self.losses += points == 0.0

    def state(self) -> dict[str, Any]:
        """JSON from which `from_state` restores the member."""
        return {
            "ref": str(self.ref),
            "kind": self.kind,
            "mu": self.rating.mu,
            "sigma": self.rating.sigma,
            "created_step": self.created_step,
            "parent": str(self.parent) if self.parent else None,
            "active": self.active,
            "counts": [self.games, self.mirror_games, self.wins, self.draws, self.losses],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Member:
        """Restore a member."""
        games, mirror_games, wins, draws, losses = state["counts"]
        return cls(
            ref=PolicyRef.parse(state["ref"]),
            kind=state["kind"],
            rating=Rating(state["mu"], state["sigma"]),
            created_step=state["created_step"],
            parent=PolicyRef.parse(state["parent"]) if state["parent"] else None,
            active=state["active"],
            games=games,
            mirror_games=mirror_games,
            wins=wins,
            draws=draws,
            losses=losses,
        )
