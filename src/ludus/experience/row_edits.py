"""What people decided about rows outside of ludus, line by line: checked against the rows as they are.

    accept     false on a verified row: do not use it any more. true on a refused row: use it after all
    reward     another reward
    response   another last answer; the policy did not say it, so it can only be imitated (`source: expert`)
    source     `on_policy` to train on the row as the policy's own, `expert` to imitate it

Invariant: a line that changes nothing does nothing; a line that would change anything else than the above, or what
cannot be done, is a problem with its place, and then none of the lines is taken. Nothing is ignored silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from typing import Any, Literal

import numpy as np

from ludus.experience.row_views import EDITABLE, Decoder, StoredRow, as_number, view_row

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
