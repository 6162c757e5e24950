"""The checks on sequences: each looks at whole columns and flags the rows that are not to be believed.

Invariant: a check never raises on bad values and never changes them. A row keeps the first flag it gets, so cheap and
fundamental checks come first in `CHECKS`. To add one, write a function like those below and put it there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.games.protocol import GameSpec
from ludus.records import REQUIRED_STEP_COLUMNS, SEQUENCE_COLUMNS, Experiences

Specs = Mapping[str, GameSpec]
Known = Callable[[str, int], bool]

LOGP_SLACK = 1e-3
"""A log-probability may exceed 0 by this much: float32 rounding of a softmax."""
_STEP_TYPES = {
    "action": "int32", "mask": "bool", "logp": "float32", "value": "float32", "reward": "float32", "version": "int32",
}  # fmt: skip
_SEQUENCE_TYPES = {"task": "int64", "attempt": "int64", "seat": "int64", "final_reward": "float32", "truncated": "bool"}
_FINITE_STEPS = ("logp", "value", "reward", "observation", "state")


class RowFlags:
    """Which rows are refused, and why. The first reason counts."""

    def __init__(self, rows: int) -> None:
        self.flagged = np.zeros(rows, np.bool_)
        self._reasons: dict[int, tuple[str, str]] = {}

    def flag_rows(self, bad: NDArray[np.bool_], reason: str, detail: Callable[[int], str] | str) -> None:
        """Flag rows by a mask `[n]`."""
        if bad.any():
            for row in np.flatnonzero(bad & ~self.flagged).tolist():
                self._reasons[row] = reason, detail if isinstance(detail, str) else detail(row)
            self.flagged |= bad

    def flag_steps(
        self, experiences: Experiences, bad: NDArray[np.bool_], reason: str, detail: Callable[[int], str]
    ) -> None:
        """Flag the rows that contain a bad element; `bad` is `[N]` and `detail` describes the first one."""
        if not bad.any():
            return
        steps = np.flatnonzero(bad)
        rows = np.searchsorted(experiences.offsets, steps, side="right") - 1
        rows, first = np.unique(rows, return_index=True)
        for row, step in zip(rows.tolist(), steps[first].tolist(), strict=True):
            if not self.flagged[row]:
                self._reasons[row] = reason, f"element {step - int(experiences.offsets[row])}: {detail(step)}"
        self.flagged[rows] = True

    def entries(self) -> Iterator[tuple[int, str, str]]:
        """Row, reason and detail of every flagged row, in order."""
        for row in sorted(self._reasons):
            yield row, *self._reasons[row]


def find_schema_problem(experiences: Experiences) -> str | None:
    """What is wrong with the columns as a whole, or None: after this, rows can be told apart."""
    return (
        _offset_problem(experiences.offsets)
        or _column_problem(experiences.sequences, SEQUENCE_COLUMNS, _SEQUENCE_TYPES, len(experiences))
        or _column_problem(experiences.steps, REQUIRED_STEP_COLUMNS, _STEP_TYPES, int(experiences.offsets[-1]))
        or _wide_column_problem(experiences)
    )


def slack(spec: GameSpec) -> tuple[float, float]:
    """Bounds of a return, widened by what float32 rounding can add."""
    margin = 1e-4 * max(abs(spec.min_return), abs(spec.max_return), 1.0)
    return spec.min_return - margin, spec.max_return + margin


def check_game(experiences: Experiences, specs: Specs, known: Known, flags: RowFlags) -> None:
    """The game is one of the run, the seat one of the game, and the columns have the game's shapes."""
    for name, rows in _rows_by(experiences.sequences["game"]).items():
        spec = specs.get(name)
        if spec is None:
            flags.flag_rows(rows, "unknown_game", f"game {name!r} is not one of this run")
            continue
        seats = experiences.sequences["seat"]
        missing = rows & ((seats < 0) | (seats >= spec.players))
        flags.flag_rows(missing, "schema", lambda row: f"seat {experiences.sequences['seat'][row]} does not exist")
        problem = _shape_problem(experiences, spec)
        if problem:
            flags.flag_rows(rows, "schema", problem)


def check_content(experiences: Experiences, specs: Specs, known: Known, flags: RowFlags) -> None:
    """The sequence has an element that its policy chose, and is not there twice."""
    chosen = np.concatenate([[0], np.cumsum(experiences.steps["mask"])])
    empty = chosen[experiences.offsets[1:]] == chosen[experiences.offsets[:-1]]
    flags.flag_rows(empty, "empty", "the policy chose none of its elements")
    keys = list(zip(experiences.sequences["episode"].tolist(), experiences.places.tolist(), strict=True))
    if len(set(keys)) < len(keys):
        first = {key: row for row, key in reversed(list(enumerate(keys)))}
        twice = np.fromiter((first[key] != row for row, key in enumerate(keys)), np.bool_, len(keys))
        flags.flag_rows(twice, "duplicate", "the same seat of the same episode came twice")


def check_finite(experiences: Experiences, specs: Specs, known: Known, flags: RowFlags) -> None:
    """No NaN and no infinity in any number that training reads."""
    for name in _FINITE_STEPS:
        column = experiences.steps.get(name)
        if column is None or column.dtype.kind != "f" or _surely_finite(column):
            continue
        bad = ~np.isfinite(column.reshape(len(column), -1)).all(axis=1)
        flags.flag_steps(experiences, bad, "not_finite", lambda step, name=name: f"{name} is not finite")  # type: ignore[misc]
    final = experiences.sequences["final_reward"]
    flags.flag_rows(~np.isfinite(final), "not_finite", lambda row: f"final_reward is {final[row]}")


def check_logp(experiences: Experiences, specs: Specs, known: Known, flags: RowFlags) -> None:
    """A log-probability is at most 0."""
    logp = experiences.steps["logp"]
    flags.flag_steps(experiences, logp > LOGP_SLACK, "bad_logp", lambda step: f"logp {logp[step]:g} is above 0")


def check_return(experiences: Experiences, specs: Specs, known: Known, flags: RowFlags) -> None:
    """The seat's total reward is one that the game can give."""
    final, why = experiences.sequences["final_reward"], "is not one that the game can give"
    for name, rows in _rows_by(experiences.sequences["game"]).items():
        if name in specs:
            low, high = slack(specs[name])
            outside = rows & ((final < low) | (final > high))
            flags.flag_rows(outside, "out_of_range", lambda row: f"final_reward {final[row]:g} {why}")


def check_actions(experiences: Experiences, specs: Specs, known: Known, flags: RowFlags) -> None:
    """Actions exist and were legal. Token sequences (no observation) have no bound but 0."""
    action, legal = experiences.steps["action"], experiences.steps.get("legal")
    bad = action < 0
    if "observation" in experiences.steps:
        for name, rows in _rows_by(experiences.sequences["game"]).items():
            here = True if rows.all() else np.repeat(rows, experiences.lengths)
            bad |= here & (action >= getattr(specs.get(name), "actions", 0))
    flags.flag_steps(experiences, bad, "illegal_action", lambda step: f"action {action[step]} does not exist")
    if legal is not None and legal.shape[1]:
        allowed = legal[np.arange(len(action)), np.clip(action, 0, legal.shape[1] - 1)]
        bad = experiences.steps["mask"] & ~allowed.astype(np.bool_)
        flags.flag_steps(experiences, bad, "illegal_action", lambda step: f"action {action[step]} was not legal")


def check_versions(experiences: Experiences, specs: Specs, known: Known, flags: RowFlags) -> None:
    """Every chosen element names a version of its policy that was published."""
    version, mask = experiences.steps["version"], experiences.steps["mask"]
    for policy, rows in _rows_by(experiences.sequences["policy"]).items():
        here = mask if rows.all() else mask & np.repeat(rows, experiences.lengths)
        unknown = [value for value in np.unique(version[here]).tolist() if not known(policy, value)]
        if unknown:
            flags.flag_steps(
                experiences,
                here & np.isin(version, unknown),
                "unknown_version",
                lambda step, policy=policy: f"{policy}@{version[step]} was never published",  # type: ignore[misc]
            )


CHECKS = (check_game, check_content, check_finite, check_logp, check_return, check_actions, check_versions)


def _offset_problem(offsets: NDArray[Any]) -> str | None:
    if offsets.ndim != 1 or offsets.dtype.kind != "i" or not len(offsets):
        return f"offsets are {offsets.dtype} of shape {offsets.shape}, expected int64 [n + 1]"
    if offsets[0] != 0 or np.any(np.diff(offsets) < 0):
        return "offsets do not rise from 0"
    return None


def _column_problem(
    columns: Mapping[str, NDArray[Any]], required: tuple[str, ...], types: Mapping[str, str], length: int
) -> str | None:
    for name in required:
        if name not in columns and name != "shaped_reward":
            return f"column {name} is missing"
    for name, column in columns.items():
        if column.ndim == 0 or len(column) != length:
            return f"column {name} has shape {column.shape}, expected {length} rows"
        if name in types and (column.dtype != types[name] or column.ndim != 1):
            return f"column {name} is {column.dtype} of {column.ndim} dimensions, expected {types[name]} of 1"
    return None


def _wide_column_problem(experiences: Experiences) -> str | None:
    legal = experiences.steps.get("legal")
    if legal is not None and (legal.ndim != 2 or legal.dtype.kind not in "bu"):
        return f"column legal is {legal.dtype} of shape {legal.shape}"
    observation = experiences.steps.get("observation")
    if observation is not None and observation.dtype.kind not in "fbui":
        return f"column observation is {observation.dtype}"
    return None


def _shape_problem(experiences: Experiences, spec: GameSpec) -> str | None:
    observation, legal = experiences.steps.get("observation"), experiences.steps.get("legal")
    if observation is not None and observation.shape[1:] != spec.observation_shape:
        return f"observation has shape {observation.shape[1:]}, the game's is {spec.observation_shape}"
    if legal is not None and legal.shape[1] != spec.actions:
        return f"legal has {legal.shape[1]} actions, the game {spec.actions}"
    state = experiences.steps.get("state")
    if state is not None and state.shape[1:] != (spec.state_size,):
        return f"state has shape {state.shape[1:]}, the game's is ({spec.state_size},)"
    return None


def _rows_by(column: NDArray[Any]) -> dict[str, NDArray[np.bool_]]:
    """For each distinct name in a column of strings, the mask of its rows."""
    names = column.tolist()
    distinct = dict.fromkeys(names)
    if len(distinct) == 1:
        return {str(names[0]): np.ones(len(names), np.bool_)}
    return {str(name): np.fromiter((other == name for other in names), np.bool_, len(names)) for name in distinct}


def _surely_finite(column: NDArray[Any]) -> bool:
    """A sum is finite only if every term is: one cheap pass. A sum that overflows is merely looked at closely."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(column.sum()))
