"""The league's tables in the catalog: ratings, payoffs and the latest matches, for whoever looks at a run.

They are a copy for readers: a run resumes from the league state in its checkpoint, so a lost write costs nothing.
Invariant: one transaction replaces everything, so a reader never sees half a league.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any

from ludus.league.matchmaking.member import Member
from ludus.league.payoffs.pair_payoffs import Cell, Payoffs
from ludus.records import Match
from ludus.storage.catalog import Catalog

MATCHES_KEPT = 10_000
"""Latest matches that stay in the catalog."""

_MEMBER_COLUMNS = (
    "policy, name, version, kind, mu, sigma, games, mirror_games, wins, draws, losses, active, created_step, parent"
)


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
        _write_matches(catalog, matches)


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


def _write_matches(catalog: Catalog, matches: Iterable[Match]) -> None:
    now = time.time()
    rows = [
        (match.id, match.game, json.dumps([str(ref) for ref in match.seats]), json.dumps(match.returns), now)
        for match in matches
    ]
    catalog.executemany("INSERT OR REPLACE INTO matches(id, game, seats, returns, played) VALUES(?, ?, ?, ?, ?)", rows)
    catalog.execute(
        "DELETE FROM matches WHERE id NOT IN (SELECT id FROM matches ORDER BY played DESC, id LIMIT ?)",
        (MATCHES_KEPT,),
    )


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
