"""What the trainer's loader is doing, as the loop knows it: new sequences, stages, problems, and a list of refusals.

`refused_chunks.jsonl` in the run's directory has a line for each refusal: file, member, offset, reason, detail, and how
many there were for this reason so far. Nothing that is refused is moved or deleted: the data belongs to the user.

Invariant: a refusal is listed and counted once, also when a restart reads the same data again. Two files of bounded
size hold the list; what is older than both is still in the counts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from ludus.storage.jsonl import JsonlWriter, read_jsonl
from ludus.train.messages import LoaderRefusal, LoaderReport, LoaderStage

MOST_BYTES = 4_000_000
"""Of the list; it is rotated, so there are at most two such files."""
_MOST_KNOWN = 100_000
"""Refusals that are remembered to tell whether one is new."""

Key = tuple[str, str, str, int]
Tell = Callable[..., None]
"""Takes the name of an event and its fields."""


class LoaderStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A loader at one moment, for people and programs."""

    problem: str = ""
    """Why no data comes, or less than was expected; empty while all is well."""
    stages: tuple[LoaderStage, ...] = ()
    """In the order of the data."""
    refused: dict[str, int] = {}
    """Refusals by reason, over all starts of the run."""


class RefusalList:
    """The file, and the counts by reason. The file is made with the first refusal."""

    def __init__(self, path: Path, tell: Tell) -> None:
        self._path, self._tell = path, tell
        self.counts, self._known = read_refusals(path)
        self._file: JsonlWriter | None = None

    def add(self, refusal: LoaderRefusal) -> None:
        """List a refusal, unless it is there already."""
        if (key := _key(refusal)) in self._known:
            return
        if len(self._known) < _MOST_KNOWN:
            self._known.add(key)
        self._count(refusal, 1)

    def add_unlisted(self, reason: str, count: int) -> None:
        """Refusals of which no more than the reason is known."""
        self._count(LoaderRefusal(reason=reason, detail=f"{count} that came too fast to be listed"), count)

    def _count(self, refusal: LoaderRefusal, count: int) -> None:
        before = self.counts.get(refusal.reason, 0)
        total = self.counts[refusal.reason] = before + count
        self._file = self._file or JsonlWriter(self._path, most_bytes=MOST_BYTES)
        self._file.write({**msgspec.structs.asdict(refusal), "count": total})
        if before.bit_length() < total.bit_length():  # 1, 2, 4, 8, ...: say so, without flooding
            told = {name: value for name, value in msgspec.structs.asdict(refusal).items() if value != ""}
            self._tell("data_refused", **told, count=total)


class LoaderWatch:
    """Takes the trainer's reports. `status` may be asked from any thread."""

    def __init__(self, path: Path, tell: Tell) -> None:
        self._path, self._tell = path, tell
        self._refusals: RefusalList | None = None
        self.new_sequences = 0
        """Sequences that no update was told to admit."""
        self.status: LoaderStatus | None = None
        """None where there is no loader, or one that tells nothing."""

    def absorb(self, report: LoaderReport, *, ordered: int) -> None:
        """Take a report. `ordered`: the last update that the trainer was asked for; a report of an earlier one may
        count sequences as new that this update admits."""
        if report.update >= ordered:
            self.new_sequences = report.new_sequences
        if self._refusals is None:
            self._refusals = RefusalList(self._path, self._tell)
        for refusal in report.refusals:
            self._refusals.add(refusal)
        for reason, count in report.unlisted.items():
            self._refusals.add_unlisted(reason, count)
        if report.problem and report.problem != (self.status.problem if self.status is not None else ""):
            self._tell("loader_problem", problem=report.problem)
        self.status = LoaderStatus(
            problem=report.problem, stages=tuple(report.stages), refused=dict(self._refusals.counts)
        )

    def metrics(self) -> dict[str, float]:
        """Loads, queues and counts of all stages, and refusals by reason."""
        if self.status is None:
            return {}
        found: dict[str, float] = {}
        for stage in self.status.stages:
            found[f"loader/{stage.name}/load"] = stage.load
            if stage.capacity:
                found[f"loader/{stage.name}/queue"] = float(stage.length)
            found |= {f"loader/{stage.name}/{name}": float(count) for name, count in stage.counts.items()}
        refused = self.status.refused
        found |= {f"loader/refused/{reason}": float(count) for reason, count in refused.items()}
        return {**found, "loader/refused": float(sum(refused.values()))}


def read_refusals(path: Path) -> tuple[dict[str, int], set[Key]]:
    """How many refusals of each reason a list counts, and which it has."""
    counts: dict[str, int] = {}
    known: set[Key] = set()
    for line in read_jsonl(path):
        try:
            refusal, count = msgspec.convert(line, LoaderRefusal), int(line["count"])
        except (msgspec.ValidationError, KeyError, TypeError, ValueError):
            continue
        counts[refusal.reason] = max(count, counts.get(refusal.reason, 0))
        if refusal.file:
            known.add(_key(refusal))
    return counts, known


def _key(refusal: LoaderRefusal) -> Key:
    return (refusal.reason, refusal.file, refusal.member, refusal.offset)
