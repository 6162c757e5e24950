"""The pool: who plays in this league, how good each is, and what they got against each other.

Invariants: a member is never rated against itself; the same matches in the same order give the same pool; memory is
bounded by `pool_size` and `RETIRED_KEPT`, whatever the number of matches. The pool belongs to one thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import isfinite
from typing import Any

from ludus.config import LeagueConfig
from ludus.errors import LudusError
from ludus.league.matchmaking.member import MATCHES_KEPT, Member, fit_members, met_members, write_tables
from ludus.league.matchmaking.population import LineUps
from ludus.league.payoffs.cells import Payoffs, mean_returns, points, ranks
from ludus.league.ratings.trueskill import Rating, TrueSkill
from ludus.records import Match, PolicyName, PolicyRef
from ludus.storage.catalog import Catalog

RETIRED_KEPT = 256
"""Retired versions that stay in the ladder; older ones are forgotten."""
RECENT_DECAY = 0.99
"""Weight of the past in the learner's recent scores: about its last hundred games against an opponent count."""
SIGMA_GROWTH = 2.0
"""A new version is believed as good as the one before it, but this much less surely."""


class Pool:
    """Members by key, their payoffs, and the learner's recent scores. Mutable; see the module's invariants."""

    def __init__(self, config: LeagueConfig, learner: PolicyRef) -> None:
        self.config = config
        self.trueskill = TrueSkill(config.trueskill)
        self.learner = Member(ref=learner, kind="learner", rating=self.trueskill.start())
        self.payoffs = Payoffs()
        self.match_count = 0
        self.line_ups: LineUps | None = None
        """Where a population gave the learner whom to answer: whom."""
        self.revision = 0
        """Grows with every change: what is derived from the pool can be kept until then."""
        self._members: dict[str, Member] = {self.learner.key: self.learner}
        self._recent: dict[str, list[float]] = {}
        self._unwritten: deque[Match] = deque(maxlen=MATCHES_KEPT)

    @property
    def members(self) -> tuple[Member, ...]:
        """All members: the learner first, then in the order they joined."""
        return tuple(self._members.values())

    @property
    def snapshots(self) -> tuple[Member, ...]:
        """Versions that may be chosen as opponents, oldest first."""
        return tuple(m for m in self._members.values() if m.kind == "snapshot" and m.active)

    @property
    def fixed(self) -> tuple[Member, ...]:
        """Fixed players that may be chosen as opponents."""
        return tuple(m for m in self._members.values() if m.kind == "fixed" and m.active)

    def find(self, ref: PolicyRef) -> Member | None:
        """The member that plays under this name and version. Unlisted versions of the learner are the learner."""
        member = self._members.get(str(ref)) or self._members.get(ref.name)
        return member if member is None or member.kind != "fixed" or ref.version == 0 else None

    def set_learner(self, ref: PolicyRef) -> None:
        """Say which version is learning now. Its name is the learner's for good; versions never go back."""
        if ref.name != self.learner.ref.name:
            raise LudusError(f"the learner of this pool is {self.learner.ref.name}, not {ref.name}")
        self.learner.ref = ref
        self.revision += 1

    def add_snapshot(self, ref: PolicyRef, step: int) -> Member:
        """Let a frozen version join; adding it again changes nothing.

        It is believed as good as the version of its policy before it, with `SIGMA_GROWTH` times its sigma (at most the
        start's).
        """
        known = self._members.get(str(ref))
        if known is not None:
            return known
        earlier = [m for m in self._members.values() if m.kind == "snapshot" and m.ref.name == ref.name]
        rating, parent = self.trueskill.start(), None
        if earlier:
            sigma = min(SIGMA_GROWTH * earlier[-1].rating.sigma, rating.sigma)
            rating, parent = Rating(earlier[-1].rating.mu, sigma), earlier[-1].ref
        member = Member(ref=ref, kind="snapshot", rating=rating, created_step=step, parent=parent)
        self._members[member.key] = member
        self.revision += 1
        return member

    def add_fixed(self, name: str) -> Member:
        """Let a fixed player join; adding it again changes nothing."""
        if name == self.learner.ref.name:
            raise LudusError(f"{name} is the learner's name; a fixed player needs another one")
        if name not in self._members:
            ref = PolicyRef(name=PolicyName(name))
            self._members[name] = Member(ref=ref, kind="fixed", rating=self.trueskill.start())
            self.revision += 1
        return self._members[name]

    def retire(self) -> tuple[PolicyRef, ...]:
        """Bring the active versions down to `pool_size` and return those that were retired.

        The newer half of the places goes to the newest versions, the rest to the best rated. Fixed players stay.
        """
        active = self.snapshots
        newest = active[-((self.config.pool_size + 1) // 2) :]
        others = sorted(active[: -len(newest)], key=lambda m: (m.rating.mu, m.created_step, m.ref), reverse=True)
        retired = sorted(others[self.config.pool_size - len(newest) :], key=lambda m: m.ref) if others else []
        for member in retired:
            member.active = False
        self._forget_oldest_retired()
        self.revision += 1
        return tuple(member.ref for member in retired)

    def record(self, match: Match, *, rated: bool = True) -> None:
        """Count a match and, unless told otherwise, rate it.

        Mirror matches and single-player games count as games and are not rated. Where a member holds several seats,
        its mean return counts. Call once per match, in task order when the run must be deterministic.
        """
        _check(match)
        seated = [self._seated(ref) for ref in match.seats]
        keys = [member.key for member in seated]
        results = mean_returns(keys, match.returns)
        self.match_count += 1
        self.revision += 1
        self._unwritten.append(match)
        self.payoffs.add(match.game, keys, match.returns)
        if len(results) == 1:
            seated[0].games += 1
            seated[0].mirror_games += len(seated) > 1
            return
        places = ranks(list(results.values()))
        players = [self._members[key] for key in results]
        for member, won in zip(players, points(list(results.values())), strict=True):
            member.count(won)
        self._remember(match, keys, results)
        if rated:
            for member, rating in zip(players, self.trueskill.rate([m.rating for m in players], places), strict=True):
                member.rating = rating

    def recent_score(self, opponent: Member) -> float:
        """The learner's share of points against an opponent of late, with one imagined draw; 0.5 if they never met."""
        weight, won = self._recent.get(opponent.key, (0.0, 0.0))
        return (won + 0.5) / (weight + 1.0)

    def elo(self, member: Member) -> tuple[float, float] | None:
        """A member's rating from one fit of all games, as the ladder shows it, and its standard error; None unmet."""
        cells = self.payoffs.by_pair()
        met = met_members(self._members, cells)
        if member.key not in met:
            return None
        fit, place = fit_members(self._members, met, cells), met.index(member.key)
        return float(fit.ratings[place]), float(fit.errors[place])

    def state(self) -> dict[str, Any]:
        """JSON from which `load_state` restores the pool exactly."""
        return {
            "members": [member.state() for member in self._members.values()],
            "payoffs": self.payoffs.state(),
            "recent": {key: list(value) for key, value in self._recent.items()},
            "match_count": self.match_count,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Replace everything by what `state` returned."""
        members = [Member.from_state(row) for row in state["members"]]
        learners = [member for member in members if member.kind == "learner"]
        if len(learners) != 1 or learners[0].ref.name != self.learner.ref.name:
            raise LudusError(f"the saved league is not one of {self.learner.ref.name}")
        self.learner = learners[0]
        self._members = {member.key: member for member in members}
        self.payoffs.load_state(state["payoffs"])
        self._recent = {key: list(value) for key, value in state["recent"].items()}
        self.match_count = state["match_count"]
        self.revision += 1

    def write(self, catalog: Catalog) -> None:
        """Copy the league to the catalog, for readers."""
        write_tables(catalog, self._members.values(), self.payoffs, self._unwritten)
        self._unwritten.clear()

    def _seated(self, ref: PolicyRef) -> Member:
        member = self.find(ref)
        if member is not None:
            return member
        if ref.version != 0:
            raise LudusError(f"the league does not know {ref}; add it before its matches")
        return self.add_fixed(ref.name)

    def _remember(self, match: Match, keys: Sequence[str], results: dict[str, float]) -> None:
        """Update the learner's recent scores, under whichever key its version is listed."""
        is_mine = [ref == self.learner.ref or k == self.learner.key for k, ref in zip(keys, match.seats, strict=True)]
        if not any(is_mine):
            return
        own = keys[is_mine.index(True)]
        for key in dict.fromkeys(k for k, is_own in zip(keys, is_mine, strict=True) if not is_own):
            won, _ = points([results[own], results[key]])
            weight, total = self._recent.get(key, (0.0, 0.0))
            self._recent[key] = [RECENT_DECAY * weight + 1.0, RECENT_DECAY * total + won]

    def _forget_oldest_retired(self) -> None:
        retired = [m.key for m in self._members.values() if m.kind == "snapshot" and not m.active]
        for key in retired[: max(len(retired) - RETIRED_KEPT, 0)]:
            del self._members[key]
            self._recent.pop(key, None)
            self.payoffs.forget(key)


def _check(match: Match) -> None:
    if len(match.seats) != len(match.returns) or not match.seats:
        raise LudusError(f"match {match.id}: {len(match.seats)} seats but {len(match.returns)} returns")
    if not all(isfinite(value) for value in match.returns):
        raise LudusError(f"match {match.id}: returns are not finite: {match.returns}")
