"""The rows of a run in the terminal and in files: samples with their texts, `--export` and `--import`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ludus.buffer import put_into_inbox
from ludus.config import RunConfig, printable, shorten
from ludus.errors import ConfigError
from ludus.experience import KeptRows
from ludus.experience.kept_rows import Decoder, StoredRow, stored_rows, view_row
from ludus.experience.row_edits import Encoder
from ludus.experience.row_files import Line, What, export_rows, import_rows, newest_rows
from ludus.reports.run_text import find_decoder, text_folder
from ludus.storage.run_directory import RunDirectory
from ludus.tasks.rows import BadRow
from ludus.tasks.sources import read_json_lines

SHOWN_CHARACTERS = 400
WHAT = ("verified", "refused", "all")


class RunText:
    """The text of a run's model."""

    def __init__(self, directory: RunDirectory, config: RunConfig) -> None:
        self._directory = directory
        self._config = config

    @property
    def folder(self) -> Path:
        """Where the model's files are: what a warm start made, or what the config names."""
        return text_folder(self._directory, self._config)

    def load(self) -> tuple[Encoder, int]:
        """What makes an answer into tokens, and how many tokens a row may have."""
        from ludus.lm.model_text import load_model_text

        text = load_model_text(self._model.model_copy(update={"path": str(self.folder)}))
        return text.chat.encode_reply, text.context

    @property
    def _model(self) -> Any:
        return self._config.policy.model


def find_samples(directory: RunDirectory, config: RunConfig, count: int, reason: str) -> list[dict[str, Any]]:
    """The newest rows that were verified and the newest of each reason, as a person reads them."""
    kept = KeptRows(directory.path)
    rows = list(newest_rows(kept, "verified", count)) if not reason else []
    rows += _newest_by_reason(kept, count, reason)
    if not rows:
        return []
    try:
        decode = _decoder(directory, config)
    except ConfigError:
        decode = None  # the model is not on this machine; the rows are worth seeing anyway
    return [view_row(stored, decode) for stored in rows]


def sample_lines(samples: list[dict[str, Any]]) -> list[str]:
    """Samples as lines of text."""
    lines = []
    for view in samples:
        group = f"  group {view['group']}" if view["group"] else ""
        what = view["reason"] or view["status"]
        reward = "no reward" if view["reward"] is None else f"reward {view['reward']:g}"
        lines.append(f"  {what:<16} {view['id']}  {view['policy']}@{view['version']}{group}  {reward}")
        lines += [f"      {view['detail']}"] if view["detail"] else []
        if "prompt" in view:
            lines += [f"      > {_shown(view['prompt'])}", f"      < {_shown(view['response'])}"]
        else:
            lines.append(f"      {shorten(' '.join(map(str, view['actions'])), SHOWN_CHARACTERS)}")
    return lines


def write_rows(directory: RunDirectory, config: RunConfig, path: Path, what: str, limit: int, reason: str) -> str:
    """Write the newest rows to a file of JSON lines; returns what to say about it."""
    if what not in WHAT:
        raise ConfigError(f"--what {what}: expected {', '.join(WHAT)}")
    if not path.parent.is_dir():
        raise ConfigError(f"--export {path}: there is no folder {path.parent}")
    kept = KeptRows(directory.path)
    chosen: What = what  # type: ignore[assignment]
    rows = newest_rows(kept, chosen, limit, reason=reason)
    count = export_rows(rows, _decoder(directory, config), path)
    passed = f" ({kept.passed_over} damaged segments passed over)" if kept.passed_over else ""
    return (
        f"{count:,} rows written to {path}{passed}; change accept, reward, response or source, and bring them back "
        f"with: ludus inspect {directory.path} --import {path}"
    )


def take_rows(directory: RunDirectory, config: RunConfig, path: Path, *, is_live: bool) -> str:
    """Leave what people changed in a file for the run to take; returns what to say about it."""
    made = import_rows(
        _lines(path),
        str(path),
        KeptRows(directory.path),
        decode=_decoder(directory, config),
        text=RunText(directory, config).load if config.policy.model is not None else None,
        has_expert=config.buffer.expert is not None,
    )
    along = f" (and {made.along} more of their groups)" if made.along else ""
    said = (
        f"{made.on_policy} rows to train on{along}, {made.expert} to imitate, {made.rejected} rejected, "
        f"{made.unchanged} unchanged"
    )
    if not len(made.rows):
        return f"{path}: {said}; there is nothing to take"
    put_into_inbox(directory.inbox, made.rows)
    return f"{path}: {said}; the run takes them {'with its next update' if is_live else 'when it resumes'}"


def _newest_by_reason(kept: KeptRows, count: int, reason: str) -> list[StoredRow]:
    found: dict[str, list[StoredRow]] = {}
    for rows in kept.scan_refused(newest_first=True):
        reasons = rows.sequences["reason"].tolist()
        for place in range(len(rows) - 1, -1, -1):
            here = found.setdefault(reasons[place], [])
            if len(here) < count and reason in ("", reasons[place]):
                here += stored_rows(rows.take([place]), "refused")
    return [stored for _, rows in sorted(found.items()) for stored in rows]


def _decoder(directory: RunDirectory, config: RunConfig) -> Decoder | None:
    """What makes the run's tokens text; None when its policy is a network."""
    return find_decoder(directory, config)


def _lines(path: Path) -> Iterator[Line]:
    if not path.is_file():
        raise ConfigError(f"--import {path}: no such file")
    for row in read_json_lines(path):
        if isinstance(row, BadRow):
            yield Line(number=row.line, fields={}, problem=row.reason)
        else:
            yield Line(number=row.line, fields=row.fields)


def _shown(text: str) -> str:
    return shorten(printable(text), SHOWN_CHARACTERS)
