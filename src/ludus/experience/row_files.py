"""Rows out to a file of JSON lines, to be annotated or repaired, and back in.

Invariant: exporting changes nothing, and importing what was exported unchanged does nothing. Either every line of a
file is taken or none, with one line per problem (`file:line: reason`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

from ludus.errors import ConfigError
from ludus.experience.kept_rows import Decoder, KeptRows, StoredRow, keys_of, stored_rows, view_row
from ludus.experience.row_edits import BadEdit, Edit, EditedRows, Encoder, make_rows, read_edit
from ludus.storage.atomic import write_bytes

What = Literal["verified", "refused", "all"]
RowText = Callable[[], tuple[Encoder, int]]
"""Loads what makes an answer into tokens, and how many tokens a row may have."""
MOST_PROBLEMS = 20
MOST_LINES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a file: an object, or what is wrong with it."""

    number: int
    fields: Mapping[str, Any]
    problem: str = ""


def newest_rows(kept: KeptRows, what: What, limit: int | None, *, reason: str = "") -> list[StoredRow]:
    """The newest rows, oldest of them first; with `reason`, only rows that were refused for it."""
    scans: list[Iterator[StoredRow]] = []
    if what != "refused" and not reason:
        verified = (rows for _, rows in kept.scan(newest_first=True))
        scans.append(_newest(verified, "verified"))
    if what != "verified":
        scans.append(_newest(kept.scan_refused(newest_first=True), "refused"))
    most = MOST_LINES if limit is None else limit
    rows: list[StoredRow] = []
    for scan in scans:
        rows += islice((row for row in scan if not reason or row.row.sequences["reason"][0] == reason), most)
    return sorted(rows, key=_by_task)[-most:] if most else []


def export_rows(rows: Iterable[StoredRow], decode: Decoder | None, path: Path) -> int:
    """Write rows as JSON lines, the whole file or nothing; returns how many."""
    lines = [json.dumps(view_row(stored, decode), ensure_ascii=False, allow_nan=False) for stored in rows]
    # Text of a model may hold half of a character, which no file can.
    write_bytes(path, "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
    return len(lines)


def import_rows(
    lines: Iterable[Line],
    name: str,
    kept: KeptRows,
    *,
    decode: Decoder | None,
    text: RowText | None,
    has_expert: bool,
) -> EditedRows:
    """What the lines of a file come to.

    Args:
        name: What the file is called in messages.
        decode: Makes tokens text; None for boards.
        text: Only called where an answer was changed.
        has_expert: Whether the run learns from expert rows.

    Raises:
        ConfigError: one line per problem; nothing was imported.
    """
    given = list(lines)
    if len(given) > MOST_LINES:
        raise ConfigError(f"{name}: more than {MOST_LINES:,} lines; import it in parts")
    edits, problems = _read(given, _find_rows(kept, given), decode, has_expert=has_expert)
    made = None
    if not problems:
        needs_text = any(edit.response is not None for edit in edits)
        encode, context = text() if needs_text and text else (None, None)
        made = make_rows(edits, encode=encode, context=context)
        problems = list(made.problems)
    if problems or made is None:
        said = [f"{name}:{number}: {text}" for number, text in sorted(problems)[:MOST_PROBLEMS]]
        more = len(problems) - len(said)
        raise ConfigError(*said, *([f"… and {more:,} more problems"] if more else []))
    return made


def _read(
    lines: list[Line], rows: Mapping[str, StoredRow], decode: Decoder | None, *, has_expert: bool
) -> tuple[list[Edit], list[tuple[int, str]]]:
    edits: list[Edit] = []
    problems: list[tuple[int, str]] = []
    first: dict[str, int] = {}
    for line in lines:
        try:
            if line.problem:
                raise BadEdit(line.problem)
            edit = read_edit(line.number, line.fields, rows, decode, has_expert=has_expert)
            if first.setdefault(edit.stored.id, line.number) != line.number:
                raise BadEdit(f"the row {edit.stored.id} is already in line {first[edit.stored.id]}; write it once")
            edits.append(edit)
        except BadEdit as error:
            problems.append((line.number, str(error)))
    return edits, problems


def _find_rows(kept: KeptRows, lines: Iterable[Line]) -> dict[str, StoredRow]:
    """The rows of the run that lines speak of, by id."""
    wanted = {line.fields.get("id") for line in lines if isinstance(line.fields.get("id"), str)}
    episodes = {str(id).partition("/")[0] for id in wanted}
    found: dict[str, StoredRow] = {}
    verified = ((rows, "verified") for _, rows in kept.scan())
    refused = ((rows, "refused") for rows in kept.scan_refused())
    for rows, status in chain(verified, refused):
        places = [place for place, (episode, _) in enumerate(keys_of(rows)) if episode in episodes]
        if places:
            here = stored_rows(rows.take(places), status)  # type: ignore[arg-type]
            found |= {stored.id: stored for stored in here if stored.id in wanted}
    return found


def _newest(scan: Iterable[Any], status: Literal["verified", "refused"]) -> Iterator[StoredRow]:
    for rows in scan:
        yield from reversed(stored_rows(rows, status))


def _by_task(stored: StoredRow) -> tuple[int, int, int]:
    columns = stored.row.sequences
    return int(columns["task"][0]), int(columns["attempt"][0]), int(stored.row.places[0])
