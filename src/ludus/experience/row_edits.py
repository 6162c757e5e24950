"""What people decided about rows outside of ludus, line by line: checked against the rows as they are, made into rows.

    accept     false on a verified row: do not use it any more. true on a refused row: use it after all
    reward     another reward
    response   another last answer; the policy did not say it, so it can only be imitated (`source: expert`)
    source     `on_policy` to train on the row as the policy's own, `expert` to imitate it

Invariants:
- A line that changes nothing does nothing; a line that would change anything else than the above, or what cannot be
  done, is a problem with its place, and then none of the lines is taken. Nothing is ignored silently.
- The old row stays as it is. A new one has a name derived from the old, so that taking the same file twice is a no-op.
- A row to train on keeps tokens, log-probabilities and versions; a row to imitate needs none of these. Every row that
  comes out passes the checks that rows of explorers pass, as far as they concern it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import blake2b
from math import isfinite
from typing import Any, Literal

import numpy as np

from ludus.experience.checks import RowFlags, check_content, check_finite, check_logp
from ludus.experience.kept_rows import EDITABLE, REJECTION, Decoder, StoredRow, as_number, last_reply, view_row
from ludus.experience.transforms import last_chosen
from ludus.records import Experiences, join

Action = Literal["nothing", "reject", "on_policy", "expert"]
SOURCES = ("on_policy", "expert")
_FATE = ("status", "reason", "detail")
"""What may have changed since a row was exported, because the run went on."""
_LARGEST = float(np.finfo(np.float32).max)


class BadEdit(ValueError):
    """What is wrong with one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One line, understood."""

    line: int
    stored: StoredRow
    action: Action
    reward: float | None
    """The reward that the row has now; None when nobody gave it one."""
    response: str | None = None
    """Another last answer; None leaves it."""


def read_edit(
    line: int, fields: Mapping[str, Any], rows: Mapping[str, StoredRow], decode: Decoder | None, *, has_expert: bool
) -> Edit:
    """Understand one line of a file.

    Args:
        rows: The rows of the run that lines may speak of, by id.
        has_expert: Whether the run learns from expert rows.

    Raises:
        BadEdit: it cannot be done; one sentence says why.
    """
    stored = rows.get(fields["id"]) if isinstance(fields.get("id"), str) else None
    if stored is None:
        raise BadEdit("no id" if "id" not in fields else f"the run has no row {str(fields['id'])[:60]!r} (any more)")
    now = view_row(stored, decode)
    _check_keys(fields, now)
    reward, response = _reward(fields, now), _response(fields, now)
    is_changed = reward != now["reward"] or response is not None
    # As the file has it: what became of the row since then is not the person's doing.
    was_accepted = now["accept"] if "status" not in fields else fields["status"] == "verified"
    accept = fields.get("accept", was_accepted)
    if not isinstance(accept, bool):
        raise BadEdit("accept: expected true or false")
    if not accept:
        if is_changed:
            raise BadEdit("it was changed, but is not accepted; write accept: true, or leave it as it was")
        is_rejected = was_accepted and now["accept"]
        return Edit(line=line, stored=stored, action="reject" if is_rejected else "nothing", reward=reward)
    source = _source(fields, response, has_expert=has_expert)
    if was_accepted and not is_changed and source == "on_policy":
        return Edit(line=line, stored=stored, action="nothing", reward=reward)
    if source == "on_policy" and reward is None:
        raise BadEdit("reward: the row has none that could be trained on; write a number")
    return Edit(line=line, stored=stored, action=source, reward=reward, response=response)


def _check_keys(fields: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for key, value in fields.items():
        if key in EDITABLE and (key != "response" or key in now):
            continue
        if key not in now:
            near = get_close_matches(key, [*EDITABLE, *now], n=1)
            raise BadEdit(f"unknown field {key[:40]!r}" + (f"; did you mean {near[0]}?" if near else ""))
        if value != now[key] and key not in _FATE:
            raise BadEdit(f"{key} cannot be changed; only {', '.join(EDITABLE)} can")


def _reward(fields: Mapping[str, Any], now: Mapping[str, Any]) -> float | None:
    given = fields.get("reward", now["reward"])
    if given is None:
        if now["reward"] is not None:
            raise BadEdit("reward: expected a number, got null")
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not isfinite(given) or abs(given) > _LARGEST:
        raise BadEdit("reward: expected a finite number")
    return as_number(given)


def _response(fields: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    given = fields.get("response", now.get("response"))
    if given is None or given == now["response"]:
        return None
    if not isinstance(given, str) or not given.strip():
        raise BadEdit("response: expected text that is not blank")
    return given


def _source(fields: Mapping[str, Any], response: str | None, *, has_expert: bool) -> Literal["on_policy", "expert"]:
    source = fields.get("source", "on_policy" if response is None else "expert")
    if source not in SOURCES:
        raise BadEdit(f"source: expected {' or '.join(SOURCES)}")
    if source == "on_policy" and response is not None:
        raise BadEdit("response: the policy did not say this, so it can only be imitated; write source: expert")
    if source == "expert" and not has_expert:
        raise BadEdit("source: expert, but the run learns from no expert rows (its config has no `buffer.expert`)")
    return "expert" if source == "expert" else "on_policy"


def edited_groups(edits: Iterable[Edit]) -> dict[str, list[Edit]]:
    """Groups with a row that is to be trained on anew, each with all rows that come along.

    Rewards are compared within a group: a row that comes back alone would have nothing to be compared with. So the
    others of its group that are in the file, and that nobody rejected, come back with it. A row without a group is one
    by itself.
    """
    groups: dict[str, list[Edit]] = {}
    for edit in edits:
        name = str(edit.stored.row.sequences["group"][0]) or f"/{edit.stored.id}"
        is_along = edit.action == "nothing" and edit.stored.status == "verified" and edit.reward is not None
        if edit.action == "on_policy" or is_along:
            groups.setdefault(name, []).append(edit)
    return {name: members for name, members in groups.items() if any(edit.action == "on_policy" for edit in members)}


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
