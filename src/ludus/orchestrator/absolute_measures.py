"""Measures that need no opponent: exploitability of small games, and moves judged by a solver.

Invariant: what is reported is exact for what was looked at. Where a game is too large, or a solver is not installed,
nothing is reported. To add one: a class with `measure(job)` and a line in `make_measures`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, Protocol

from ludus.errors import ConfigError, StorageError
from ludus.games.connect_four_solver import ConnectFourSolver, can_solve
from ludus.games.protocol import GameSpec
from ludus.orchestrator.evaluation_scores import Z95
from ludus.policies import AnyShape, PolicyShape, PolicyStore
from ludus.records import Episode, PolicyRef

if TYPE_CHECKING:
    from ludus.league.exact.nash_conv import NetworkNashConv
    from ludus.orchestrator.evaluation import Job

log = logging.getLogger(__name__)

MOST_HISTORIES = 50_000
"""Larger trees would keep a run waiting while they are built."""
MOST_POSITIONS = 600
"""Positions of each player that are judged, taken evenly from all of its games."""


class Measure(Protocol):
    """Looks at a complete evaluation."""

    def measure(self, job: Job) -> dict[str, float]:
        """Metrics by name. Called once for each evaluation, in the loop's thread."""
        ...


def make_measures(specs: Mapping[str, GameSpec], shape: AnyShape, store: PolicyStore) -> tuple[Measure, ...]:
    """Those that say something about a policy of this shape in these games."""
    found: list[Measure] = []
    for game, spec in specs.items():
        path = f"evaluate/{game}" if len(specs) > 1 else "evaluate"
        if can_solve(spec):
            found.append(MoveJudge(game, path))
        if spec.tree and spec.must_mix and isinstance(shape, PolicyShape):
            found.append(Exploitability(spec, path, store))
    return tuple(found)


class Exploitability:
    """NashConv of a version as it samples, on the whole tree of the game."""

    def __init__(self, spec: GameSpec, path: str, store: PolicyStore) -> None:
        self._spec, self._path, self._store = spec, path, store
        self._is_refused = False

    def measure(self, job: Job) -> dict[str, float]:
        """NashConv, and its mean over the seats; nothing for a game that is too large."""
        if self._is_refused:
            return {}
        try:
            policy = self._store.load(job.learner, PolicyShape)
        except StorageError as error:
            log.warning("%s: the exploitability of %s is not computed: %s", self._spec.key, job.learner, error)
            return {}
        try:
            conv = self._tree.nash_conv(policy.weights, policy.shape)
        except ConfigError as error:
            self._is_refused = True
            log.info("%s: exploitability is not computed: %s", self._spec.key, error)
            return {}
        return {f"{self._path}/nash_conv": conv, f"{self._path}/exploitability": conv / self._spec.players}

    @cached_property
    def _tree(self) -> NetworkNashConv:
        from ludus.league.exact.nash_conv import NetworkNashConv

        return NetworkNashConv(self._spec.tree, most_histories=MOST_HISTORIES)


class MoveJudge:
    """Connect Four: which of the moves kept the outcome that perfect play would have reached.

    Only positions count in which it matters: some legal move keeps the outcome and some other gives it away. Solving
    takes seconds, so only evaluations with the final number of games are judged, and in these the games against fixed
    players: against its past versions a policy samples.
    """

    def __init__(self, game: str, path: str) -> None:
        self._game, self._path = game, path

    def measure(self, job: Job) -> dict[str, float]:
        """Share of outcome-preserving moves of the measured version, and of each fixed opponent."""
        if not job.is_final:
            return {}
        fixed = {ref for ref in job.opponents if ref.name != job.learner.name}
        games = [
            each
            for each in job.in_order()
            if each.task.game == self._game and not each.error and fixed & {seat.policy for seat in each.task.seats}
        ]
        solver, metrics = ConnectFourSolver(), dict[str, float]()
        for who in (job.learner, *sorted(fixed, key=str)):
            kept = list(_judged(solver, games, who))
            name = self._path if who == job.learner else f"{self._path}/{who.name}"
            if kept:
                share = sum(kept) / len(kept)
                metrics[f"{name}/optimal_moves"] = share
                metrics[f"{name}/optimal_moves_ci95"] = Z95 * sqrt(share * (1 - share) / len(kept))
                metrics[f"{name}/judged_positions"] = float(len(kept))
        return metrics


def _judged(solver: ConnectFourSolver, games: Sequence[Episode], who: PolicyRef) -> Iterator[bool]:
    """Whether each of its moves kept the outcome, in positions where it matters; evenly from all games."""
    places = [
        (episode.move_actions.tolist(), ply)
        for episode in games
        for ply, seat in enumerate(episode.move_seats.tolist())
        if episode.task.seats[seat].policy == who
    ]
    for number in range(min(MOST_POSITIONS, len(places))):
        moves, ply = places[number * len(places) // min(MOST_POSITIONS, len(places))]
        outcomes = solver.outcomes(moves[:ply])
        best = max(outcomes.values())
        if min(outcomes.values()) < best:
            yield outcomes[moves[ply]] == best
