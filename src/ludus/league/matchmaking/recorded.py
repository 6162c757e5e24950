"""Games that people had members of a run play, in `recorded.sqlite`: they count for the ladder, not for the run.

A run resumes from the league in its checkpoint, so its opponents and TrueSkill never depend on these games. Invariant:
a game is there once, also if it is recorded twice; several processes may record at the same time, beside a live run.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from ludus.league.matchmaking.member import Member
from ludus.league.payoffs.cells import Cell, Payoffs, mean_returns, points
from ludus.league.ratings.trueskill import TrueSkill
from ludus.records import PolicyName, PolicyRef
from ludus.storage.catalog import Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedGame:
    """A game by the members in its seats, as the ladder names them: `main@12`, `random`."""

    game: str
    seats: tuple[str, ...]
    returns: tuple[float, ...]
    seed: int
    greedy: bool

    @property
    def id(self) -> str:
        """The same for the same game: what decides its moves."""
        return sha256(json.dumps([self.game, self.seats, self.seed, self.greedy]).encode()).hexdigest()[:32]


def record_games(path: Path, games: Iterable[RecordedGame]) -> int:
    """Add games to the file, which is made if need be; returns how many were not there before."""
    now = time.time()
    with Catalog(path) as catalog, catalog.transaction(durable=False):
        return sum(
            catalog.execute(
                "INSERT OR IGNORE INTO matches(id, game, seats, returns, played) VALUES(?, ?, ?, ?, ?)",
                (each.id, each.game, json.dumps(each.seats), json.dumps(each.returns), now),
            )
            for each in games
        )


def read_recorded(path: Path) -> list[tuple[str, list[str], list[float]]]:
    """Game, members and returns of every recorded game; none where there is no file."""
    if not path.is_file():
        return []
    with Catalog.open_readonly(path) as catalog:
        rows = catalog.query("SELECT game, seats, returns FROM matches ORDER BY id")
    return [(game, json.loads(seats), json.loads(returns)) for game, seats, returns in rows]


def count_recorded(
    members: Sequence[Member],
    cells: Mapping[tuple[str, str], Cell],
    games: Iterable[tuple[str, Sequence[str], Sequence[float]]],
) -> tuple[list[Member], dict[tuple[str, str], Cell], Counter[str]]:
    """Members and cells with the recorded games, and how many of each member's games these are.

    Who is not in the league joins the ladder, and TrueSkill knows nothing of it.
    """
    known = {member.key: replace(member) for member in members}
    payoffs, played = Payoffs(), Counter[str]()
    for game, seats, returns in games:
        payoffs.add(game, seats, returns)
        results = mean_returns(seats, returns)
        for key, won in zip(results, points(list(results.values())), strict=True):
            known.setdefault(key, _newcomer(key)).count(won)
            played[key] += 1
    totals = {pair: replace(cell) for pair, cell in cells.items()}
    for pair, cell in payoffs.by_pair().items():
        totals.setdefault(pair, Cell()).merge(cell)
    return list(known.values()), totals, played


def _newcomer(key: str) -> Member:
    is_version = "@" in key
    ref = PolicyRef.parse(key) if is_version else PolicyRef(name=PolicyName(key))
    return Member(ref=ref, kind="snapshot" if is_version else "fixed", rating=TrueSkill().start(), active=False)
