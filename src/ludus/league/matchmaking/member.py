"""Members of the pool, and the league's tables in the catalog: ratings, payoffs and the latest matches.

The tables are a copy for readers: a run resumes from the league state in its checkpoint, so a lost write costs nothing.
Invariant: one transaction replaces everything, so a reader never sees half a league.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ludus.league.payoffs.cells import Cell, Payoffs
from ludus.league.ratings.elo import EloRatings, fit_elo, results_by_pair
from ludus.league.ratings.trueskill import Rating
from ludus.records import Match, PolicyRef
from ludus.storage.catalog import Catalog

Kind = Literal["snapshot", "fixed", "learner"]
MATCHES_KEPT = 10_000
"""Latest matches that stay in the catalog."""

_COUNTS = ("games", "mirror_games", "wins", "draws", "losses")
_MEMBER_COLUMNS = f"policy, name, version, kind, mu, sigma, {', '.join(_COUNTS)}, active, created_step, parent"


@dataclass(slots=True, kw_only=True)
class Member:
    """A frozen version, a fixed player, or the policy that is learning now. Mutable; owned by its pool.

    `games` = wins + draws + losses + `mirror_games` + games of a single player.
    """

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
            "counts": [getattr(self, name) for name in _COUNTS],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Member:
        """Restore a member."""
        return cls(
            ref=PolicyRef.parse(state["ref"]),
            kind=state["kind"],
            rating=Rating(state["mu"], state["sigma"]),
            created_step=state["created_step"],
            parent=PolicyRef.parse(state["parent"]) if state["parent"] else None,
            active=state["active"],
            **dict(zip(_COUNTS, state["counts"], strict=True)),
        )


def met_members(members: Mapping[str, Member], cells: Mapping[tuple[str, str], Cell]) -> list[str]:
    """Keys of those who have met another member, in order."""
    pairs = (pair for pair, cell in cells.items() if cell.games and pair[0] != pair[1])
    return sorted({one for one, other in pairs if one in members and other in members})


def fit_members(members: Mapping[str, Member], met: Sequence[str], cells: Mapping[tuple[str, str], Cell]) -> EloRatings:
    """Elo of those who have met others, in the order of `met`, from one fit of all their games."""
    if not met:
        return EloRatings(ratings=np.zeros(0), covariance=np.zeros((0, 0)))
    wins, draws = results_by_pair(cells, met)
    # With more than two players a game is counted once for each pair of seats, and these are not independent.
    counted = float((wins + wins.T + draws).sum())
    games = sum(members[key].wins + members[key].draws + members[key].losses for key in met)
    repeats = max(counted / games, 1.0) if games else 1.0
    return fit_elo(wins / repeats, draws / repeats)


def write_tables(catalog: Catalog, members: Iterable[Member], payoffs: Payoffs, matches: Iterable[Match]) -> None:
    """Replace ratings and payoffs, and add the matches."""
    with catalog.transaction(durable=False):
        catalog.execute("DELETE FROM ratings")
        places = ", ".join("?" * 14)
        catalog.executemany(
            f"INSERT INTO ratings({_MEMBER_COLUMNS}) VALUES({places})",
            [_member_row(member) for member in members],
        )
        catalog.execute("DELETE FROM payoffs")
        catalog.executemany(
            "INSERT INTO payoffs(game, policy, opponent, seat, games, wins, draws, losses, total) "
            "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
            payoffs.state(),
        )
        now = time.time()
        catalog.executemany(
            "INSERT OR REPLACE INTO matches(id, game, seats, returns, played) VALUES(?, ?, ?, ?, ?)",
            [
                (match.id, match.game, json.dumps([str(ref) for ref in match.seats]), json.dumps(match.returns), now)
                for match in matches
            ],
        )
        catalog.execute(
            "DELETE FROM matches WHERE id NOT IN (SELECT id FROM matches ORDER BY played DESC, id LIMIT ?)",
            (MATCHES_KEPT,),
        )


def read_tables(catalog: Catalog) -> tuple[list[Member], dict[tuple[str, str], Cell]]:
    """All members, and the counts of all pairs over games and seats."""
    members = [
        _member(row)
        for row in catalog.query(f"SELECT {_MEMBER_COLUMNS} FROM ratings ORDER BY policy")  # noqa: S608
    ]
    rows = catalog.query(
        "SELECT policy, opponent, sum(games), sum(wins), sum(draws), sum(losses), sum(total) "
        "FROM payoffs GROUP BY policy, opponent"
    )
    return members, {(row[0], row[1]): Cell(*row[2:]) for row in rows}


def _member_row(member: Member) -> tuple[object, ...]:
    saved, ref = member.state(), member.ref
    rating, parent = (saved["mu"], saved["sigma"]), saved["parent"] or ""
    head = member.key, ref.name, ref.version, member.kind
    return *head, *rating, *saved["counts"], int(member.active), member.created_step, parent


def _member(row: tuple[Any, ...]) -> Member:
    _, name, version, kind, mu, sigma, *counts, active, created_step, parent = row
    return Member.from_state(
        {
            "ref": f"{name}@{version}",
            "kind": kind,
            "mu": mu,
            "sigma": sigma,
            "created_step": created_step,
            "parent": parent,
            "active": bool(active),
            "counts": counts,
        }
    )
