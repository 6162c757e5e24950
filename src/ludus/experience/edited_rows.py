"""Edits made into rows of their own: new names derived from the old, so that taking the same file twice is a no-op.

Invariant: the old row stays as it is. A row to train on keeps tokens, log-probabilities and versions; a row to imitate
needs none of these. Every row that comes out passes the checks that rows of explorers pass, as far as they concern it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from ludus.experience.checks import RowFlags, check_content, check_finite, check_logp
from ludus.experience.kept_rows import REJECTION
from ludus.experience.row_edits import BadEdit, Edit, edited_groups
from ludus.experience.row_views import last_reply
from ludus.experience.transform_phases import last_chosen
from ludus.records import Experiences, join

Encoder = Callable[[str], Sequence[int]]
"""What somebody says in the model's place, as tokens with the end of its turn."""
_NOTES = ("reason", "detail", "source")


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedRows:
    """What a file comes to."""

    rows: Experiences
    """New rows, and rejected ones as they were, with the column `source`."""
    on_policy: int
    along: int
    """Rows that nobody changed, but that come back with their group."""
    expert: int
    rejected: int
    unchanged: int
    problems: tuple[tuple[int, str], ...]
    """Lines that cannot be done, and why."""


def make_rows(edits: Sequence[Edit], *, encode: Encoder | None = None, context: int | None = None) -> EditedRows:
    """The rows that edits come to.

    Args:
        encode: Needed where an answer was changed.
        context: Tokens that a row may have.
    """
    parts: list[Experiences] = []
    problems: list[tuple[int, str]] = []

    def add(edit: Edit, make: Callable[[], Experiences]) -> None:
        try:
            parts.append(make())
        except BadEdit as error:
            problems.append((edit.line, str(error)))

    groups = edited_groups(edits)
    for members in groups.values():
        suffix = _digest(*(f"{edit.stored.id}={edit.reward}" for edit in members))[:8]
        for edit in members:
            add(edit, lambda edit=edit, suffix=suffix: _on_policy_row(edit, suffix))  # type: ignore[misc]
    experts = [edit for edit in edits if edit.action == "expert"]
    for edit in experts:
        add(edit, lambda edit=edit: _expert_row(edit, encode, context))  # type: ignore[misc]
    rejected = [edit for edit in edits if edit.action == "reject"]
    parts += [_marked(edit.stored.row, REJECTION) for edit in rejected]
    on_policy, members_in_all = sum(edit.action == "on_policy" for edit in edits), sum(map(len, groups.values()))
    return EditedRows(
        rows=join(parts),
        on_policy=on_policy,
        along=members_in_all - on_policy,
        expert=len(experts),
        rejected=len(rejected),
        unchanged=len(edits) - members_in_all - len(experts) - len(rejected),
        problems=tuple(problems),
    )


def _on_policy_row(edit: Edit, suffix: str) -> Experiences:
    """The row with its reward, in a group of its own with the others that come back."""
    row = edit.stored.row
    _check(row.replace(steps={"reward": np.zeros(row.step_count, np.float32)}))
    group = str(row.sequences["group"][0])
    row = _rewarded(row, float(edit.reward or 0.0))
    # "usual" is part of ids that are in logs already: an edit that is brought back twice counts once.
    name = _digest(edit.stored.id, "usual", suffix, str(edit.reward))
    return _marked(row, "on_policy", episode=name, group=f"{group}+{suffix}" if group else "")


def _expert_row(edit: Edit, encode: Encoder | None, context: int | None) -> Experiences:
    """The row to be imitated: with another last answer, that answer alone."""
    row = edit.stored.row
    if edit.response is not None:
        row = _answered(row, edit.response, encode, context)
    zeros = np.zeros(row.step_count, np.float32)
    row = row.replace(
        sequences={"shaped_reward": np.zeros(1, np.float32)}, steps={"logp": zeros, "value": zeros, "reward": zeros}
    )
    _check(row)
    row = _rewarded(row, edit.reward or 0.0)
    name = _digest(edit.stored.id, "expert", row.steps["action"].tobytes().hex())
    return _marked(row, "expert", episode=name, group="")


def _answered(row: Experiences, response: str, encode: Encoder | None, context: int | None) -> Experiences:
    start, _ = last_reply(row)
    if encode is None or not start:
        raise BadEdit("response: what was said before it is not known, so it cannot be replaced")
    tokens = np.concatenate([row.steps["action"][:start], np.array(encode(response), np.int32)])
    if context is not None and len(tokens) > context:
        raise BadEdit(f"response: {len(tokens)} tokens with what comes before, more than the context of {context}")
    # Somebody wrote it, so it is well-formed, whatever the old answer was.
    steps = {name: np.full(len(tokens), name == "format_ok", column.dtype) for name, column in row.steps.items()}
    steps |= {"action": tokens, "mask": np.arange(len(tokens)) >= start}
    return Experiences(sequences=row.sequences, offsets=np.array([0, len(tokens)], np.int64), steps=steps)


def _rewarded(row: Experiences, total: float) -> Experiences:
    """The row with this total; what is left after the rewards of earlier elements is its last choice's."""
    reward, before = row.steps["reward"], float(row.sequences["shaped_reward"][0])
    is_sound = bool(np.isfinite(reward).all() and np.isfinite(before))
    reward = reward.astype(np.float32) if is_sound else np.zeros_like(reward)
    reward[int(last_chosen(row)[0])] += np.float32(total - (before if is_sound else 0.0))
    totals = {name: np.array([total], np.float32) for name in ("final_reward", "shaped_reward")}
    return row.replace(sequences=totals, steps={"reward": reward})


def _check(row: Experiences) -> None:
    flags = RowFlags(1)
    clean = row.replace(sequences={"final_reward": np.zeros(1, np.float32)})
    for check in (check_content, check_finite, check_logp):
        check(clean, {}, lambda name, version: True, flags)
    for _, reason, detail in flags.entries():
        raise BadEdit(f"the row cannot be used ({reason}: {detail})")


def _marked(row: Experiences, source: str, **texts: str) -> Experiences:
    """The row with its new source and names, without what was noted about the old one."""
    sequences = {name: column for name, column in row.sequences.items() if name not in _NOTES}
    own = {name: np.array([text], object) for name, text in {"source": source, **texts}.items()}
    return Experiences(sequences={**sequences, **own}, offsets=row.offsets, steps=row.steps)


def _digest(*parts: str) -> str:
    return blake2b("/".join(parts).encode(), digest_size=12).hexdigest()
