"""Raw episodes in, verified experience out: everything the later rooms may rely on is checked here, once.

Invariant: a sequence that comes out has the documented columns, finite numbers, legal actions, known versions and a
return within its game's range; its `shaped_reward` equals its `final_reward`. A bad sequence costs itself only, a bad
episode its own sequences; both are named in `refused`. All checks work on whole columns. To add one: a function in
`checks.py` that flags rows. `recheck` promises the same of rows that another run verified, but for their episodes,
which are not here, and for rewards, which stay as the other run shaped them.

Not covered: sequences without a usable schema, and repetitions of others, are counted but not kept in `refused_rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite

import numpy as np

from ludus.experience.checks import CHECKS, RowFlags, find_schema_problem, slack
from ludus.experience.refusals import WHOLE_EPISODE, Refusal, with_reasons
from ludus.games.protocol import GameSpec
from ludus.records import Episode, EpisodeBatch, Experiences

Why = tuple[str, str]
"""A word that refusals are counted by, and a sentence for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What passed, and what did not."""

    episodes: tuple[Episode, ...]
    """Episodes that ended well, with believable returns."""
    experiences: Experiences
    refused: list[Refusal]
    """One entry per refused sequence, or per refused episode (which takes its sequences with it)."""
    refused_rows: Experiences
    """The refused sequences as they came, with the columns `reason` and `detail`."""


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
    bad: dict[str, Why] = {}
    bounds = {game: (spec.players, *slack(spec)) for game, spec in specs.items()}
    for episode in batch.episodes:
        problem = None if _is_plainly_sound(episode, bounds) else _episode_problem(episode, specs)
        if problem is None:
            good[episode.id] = episode
        else:
            bad[episode.id] = problem
            refused.append(Refusal(episode=episode.id, seat=WHOLE_EPISODE, reason=problem[0], detail=problem[1]))
    experiences, found, rows = _verify_rows(batch.experiences, set(good), bad, specs, known_versions)
    return Verified(episodes=tuple(good.values()), experiences=experiences, refused=refused + found, refused_rows=rows)


def _verify_rows(
    experiences: Experiences,
    good: set[str],
    bad: Mapping[str, Why],
    specs: Mapping[str, GameSpec],
    known_versions: Callable[[str, int], bool],
) -> tuple[Experiences, list[Refusal], Experiences]:
    nothing = Experiences.empty()
    if len(experiences) <= 0:
        return nothing, [], nothing
    experiences = _from_zero(experiences)
    problem = find_schema_problem(experiences)
    if problem is not None:
        return nothing, _refuse_all(experiences, problem), nothing
    flags = RowFlags(len(experiences))
    names = experiences.sequences["episode"].tolist()
    # The sequences of a refused episode went with it: they are left out without an entry of their own.
    gone = np.zeros(len(names), np.bool_)
    if not good.issuperset(names):
        gone = np.fromiter((name in bad for name in names), np.bool_, len(names))
        orphans = np.fromiter((name not in good and name not in bad for name in names), np.bool_, len(names))
        flags.flag_rows(orphans, "orphan", "its episode did not come with it")
    for check in CHECKS:
        check(experiences, specs, known_versions, flags)
    refused = [refusal for refusal in _name_refused(experiences, flags) if refusal.episode not in bad]
    keep = ~(flags.flagged | gone)
    passed = experiences if keep.all() else experiences.take(np.flatnonzero(keep))
    shaped = passed.replace(sequences={"shaped_reward": passed.sequences["final_reward"].copy()})
    return shaped, refused, nothing if keep.all() else _refused_rows(experiences, flags, bad)


def _refused_rows(experiences: Experiences, flags: RowFlags, bad: Mapping[str, Why]) -> Experiences:
    names = experiences.sequences["episode"].tolist()
    why = {row: bad[name] for row, name in enumerate(names) if name in bad}
    # The other of two that are the same is kept elsewhere, under the same name.
    why |= {row: (reason, detail) for row, reason, detail in flags.entries() if reason != "duplicate"}
    if "shaped_reward" not in experiences.sequences:
        experiences = experiences.replace(sequences={"shaped_reward": experiences.sequences["final_reward"].copy()})
    return with_reasons(experiences, why)


def _is_plainly_sound(episode: Episode, bounds: Mapping[str, tuple[int, float, float]]) -> bool:
    """Whether an episode has no problem, found out quickly; of others `_episode_problem` knows more."""
    players, low, high = bounds.get(episode.task.game, (-1, 0.0, 0.0))
    returns = episode.returns
    if episode.error or len(returns) != players:
        return False
    return all(map(isfinite, returns)) and low <= min(returns) and max(returns) <= high


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


def _name_refused(experiences: Experiences, flags: RowFlags) -> list[Refusal]:
    episodes, seats = experiences.sequences["episode"], experiences.sequences["seat"]
    return [
        Refusal(episode=str(episodes[row]), seat=int(seats[row]), reason=reason, detail=detail)
        for row, reason, detail in flags.entries()
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


MOST_TASKS = 2**40
"""Training tasks of a run are numbered below this."""


def recheck(rows: Experiences, specs: Mapping[str, GameSpec]) -> tuple[Experiences, list[Refusal]]:
    """The rows that can be trained on, and why the others cannot."""
    problem = find_schema_problem(rows) or _reward_problem(rows)
    if problem is not None:
        refusal = Refusal(episode="?", seat=WHOLE_EPISODE, reason="schema", detail=problem)
        return Experiences.empty(), [refusal] * len(rows)
    flags, task = RowFlags(len(rows)), rows.sequences["task"]
    flags.flag_rows((task < 0) | (task >= MOST_TASKS), "schema", lambda row: f"task {task[row]} is no training task")
    for check in CHECKS:
        check(rows, specs, lambda name, version: version >= 0, flags)
    shaped = rows.sequences["shaped_reward"]
    flags.flag_rows(~np.isfinite(shaped), "not_finite", lambda row: f"shaped_reward is {shaped[row]}")
    if not flags.flagged.any():
        return rows, []
    return rows.take(np.flatnonzero(~flags.flagged)), _name_refused(rows, flags)


def _reward_problem(rows: Experiences) -> str | None:
    shaped = rows.sequences.get("shaped_reward")
    return None if shaped is not None and shaped.dtype == np.float32 else "no column shaped_reward of float32"
