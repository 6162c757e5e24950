"""Raw episodes in, verified experience out: everything the later rooms may rely on is checked here, once.

Invariant: a sequence that comes out has the documented columns, finite numbers, legal actions, known versions and a
return within its game's range; its `shaped_reward` equals its `final_reward`. A bad sequence costs itself only, a bad
episode its own sequences; both are named in `refused`. All checks work on whole columns. To add one: a function in
`checks.py` that flags rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite

import numpy as np

from ludus.experience.checks import CHECKS, RowFlags, find_schema_problem, slack
from ludus.experience.refusals import WHOLE_EPISODE, Refusal
from ludus.games.protocol import GameSpec
from ludus.records import Episode, EpisodeBatch, Experiences


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What passed, and what did not."""

    episodes: tuple[Episode, ...]
    """Episodes that ended well, with believable returns."""
    experiences: Experiences
    refused: list[Refusal]
    """One entry per refused sequence, or per refused episode (which takes its sequences with it)."""


def verify(
    batch: EpisodeBatch, *, specs: Mapping[str, GameSpec], known_versions: Callable[[str, int], bool]
) -> Verified:
    """Check a batch as an explorer handed it over.

    Args:
        specs: The games of the run, by key.
        known_versions: Whether a policy of this name has been published in this version.
    """
    refused: list[Refusal] = []
    good: dict[str, Episode] = {}
    bad: set[str] = set()
    for episode in batch.episodes:
        problem = _episode_problem(episode, specs)
        if problem is None:
            good[episode.id] = episode
        else:
            bad.add(episode.id)
            refused.append(Refusal(episode=episode.id, seat=WHOLE_EPISODE, reason=problem[0], detail=problem[1]))
    experiences, refused_rows = _verify_rows(batch.experiences, set(good), bad, specs, known_versions)
    return Verified(episodes=tuple(good.values()), experiences=experiences, refused=refused + refused_rows)


def _verify_rows(
    experiences: Experiences,
    good: set[str],
    bad: set[str],
    specs: Mapping[str, GameSpec],
    known_versions: Callable[[str, int], bool],
) -> tuple[Experiences, list[Refusal]]:
    if len(experiences) <= 0:
        return Experiences.empty(), []
    experiences = _from_zero(experiences)
    problem = find_schema_problem(experiences)
    if problem is not None:
        return Experiences.empty(), _refuse_all(experiences, problem)
    flags = RowFlags(len(experiences))
    names = experiences.sequences["episode"].tolist()
    # The sequences of a refused episode went with it: they are left out without an entry of their own.
    gone = np.fromiter((name in bad for name in names), np.bool_, len(names))
    flags.flag_rows(np.fromiter((n not in good and n not in bad for n in names), np.bool_, len(names)), "orphan",
                    lambda row: "its episode did not come with it")  # fmt: skip
    for check in CHECKS:
        check(experiences, specs, known_versions, flags)
    refused = [] if not flags.any else _name_refused(experiences, flags, gone)
    keep = ~(flags.flagged | gone)
    passed = experiences if keep.all() else experiences.take(np.flatnonzero(keep))
    return passed.replace(sequences={"shaped_reward": passed.sequences["final_reward"].copy()}), refused


def _episode_problem(episode: Episode, specs: Mapping[str, GameSpec]) -> tuple[str, str] | None:
    if episode.error:
        return "failed", episode.error
    spec = specs.get(episode.task.game)
    if spec is None:
        return "unknown_game", f"game {episode.task.game!r} is not one of this run"
    if len(episode.returns) != spec.players:
        return "schema", f"{len(episode.returns)} returns in a game of {spec.players} players"
    if not all(isfinite(value) for value in episode.returns):
        return "not_finite", f"returns {episode.returns}"
    low, high = slack(spec)
    if min(episode.returns) < low or max(episode.returns) > high:
        return "out_of_range", f"returns {episode.returns} outside [{spec.min_return}, {spec.max_return}]"
    return None


def _from_zero(experiences: Experiences) -> Experiences:
    """Cut a slice of a longer batch down to its own elements."""
    start, stop = int(experiences.offsets[0]), int(experiences.offsets[-1])
    if start <= 0 or stop < start:
        return experiences
    steps = {name: column[start:stop] for name, column in experiences.steps.items()}
    return Experiences(sequences=experiences.sequences, offsets=experiences.offsets - start, steps=steps)


def _name_refused(experiences: Experiences, flags: RowFlags, gone: np.ndarray) -> list[Refusal]:
    episodes, seats = experiences.sequences["episode"], experiences.sequences["seat"]
    return [
        Refusal(episode=str(episodes[row]), seat=int(seats[row]), reason=reason, detail=detail)
        for row, reason, detail in flags.entries()
        if not gone[row]
    ]


def _refuse_all(experiences: Experiences, problem: str) -> list[Refusal]:
    """Without a usable schema no row can be told from another, beyond its name if that is there."""
    count = max(len(experiences), 1)
    names = experiences.sequences.get("episode", np.full(count, "?", object))
    seats = experiences.sequences.get("seat", np.full(count, WHOLE_EPISODE))
    if len(names) != count or len(seats) != count:
        names, seats = np.full(count, "?", object), np.full(count, WHOLE_EPISODE)
    return [
        Refusal(episode=str(name), seat=int(seat), reason="schema", detail=problem)
        for name, seat in zip(names, seats, strict=True)
    ]
