"""A second look at rows that another run verified: they were written elsewhere, by who knows which version.

Invariant: what comes out holds what `verify` promises, but for its episodes, which are not here, and for rewards, which
stay as the other run shaped them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ludus.experience.checks import CHECKS, RowFlags, find_schema_problem
from ludus.experience.refusals import WHOLE_EPISODE, Refusal
from ludus.games.protocol import GameSpec
from ludus.records import Experiences

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
    if not flags.any:
        return rows, []
    episodes, seats = rows.sequences["episode"].tolist(), rows.sequences["seat"].tolist()
    refused = [
        Refusal(episode=str(episodes[row]), seat=int(seats[row]), reason=reason, detail=detail)
        for row, reason, detail in flags.entries()
    ]
    return rows.take(np.flatnonzero(~flags.flagged)), refused


def _reward_problem(rows: Experiences) -> str | None:
    shaped = rows.sequences.get("shaped_reward")
    return None if shaped is not None and shaped.dtype == np.float32 else "no column shaped_reward of float32"
