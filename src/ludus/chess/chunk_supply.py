"""What people are told about the chunks of a directory: why none come, and what was refused."""

from __future__ import annotations

import logging
import os
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from ludus_chess.loader import ChunkLoader
from ludus_chess.loader_stats import LoaderStats

from ludus.train.messages import LoaderRefusal

log = logging.getLogger(__name__)

QUIET_S = 600.0
"""After so long without a new chunk people are told."""
_MOST_DETAIL = 500


class ChunkSupply:
    """Watches over one directory. Sentences change when something changes, so that each is told once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._chunks, self._since, self._since_text = -1, monotonic(), _now()
        self._expected = self._wanted = self._found = 0
        self._is_short = False

    def see(self, stats: LoaderStats) -> None:
        """Take the loader's counts."""
        split = stats.stage("split").counts
        chunks = split["ours"] + split["others"]
        if chunks != self._chunks:
            self._chunks, self._since, self._since_text = chunks, monotonic(), _now()

    def expect(self, wanted: int, found: int) -> None:
        """A round that was to begin with so many new chunks does not find them all."""
        self._expected, self._found = wanted, found

    def begin(self, wanted: int, found: int) -> None:
        """A round begins, perhaps with fewer chunks than were counted."""
        self._expected, self._is_short = 0, found < wanted
        if self._is_short:
            self._wanted, self._found = wanted, found
            log.warning("%s", self._shortage())

    def trouble(self) -> str:
        """Why the directory cannot be read; empty if it can."""
        directory = self._directory
        if not directory.exists():
            return f"{directory} does not exist"
        if not directory.is_dir():
            return f"{directory} is not a directory"
        if not os.access(directory, os.R_OK | os.X_OK):
            return f"{directory} cannot be read: this user lacks the permission"
        return ""

    def problem(self) -> str:
        """What is wrong, in a sentence; empty while all is well."""
        if trouble := self.trouble():
            return trouble
        if self._expected:
            return f"{self._found} of the {self._expected} new chunks that were counted are in {self._directory}"
        if self._is_short:
            return self._shortage()
        if self._chunks == 0:
            return f"{self._directory} has no chunks yet (.gz or .tar)"
        if monotonic() - self._since >= QUIET_S:
            return f"no new chunk has come into {self._directory} since {self._since_text}"
        return ""

    def _shortage(self) -> str:
        return (
            f"{self._wanted - self._found} of the {self._wanted} new chunks of this round are gone from "
            f"{self._directory}; it trains on the {self._found} that are there"
        )


class Refused:
    """Refusals of one native loader, since the last look."""

    def __init__(self, loader: ChunkLoader) -> None:
        self._loader = loader
        self._counted: Counter[str] = Counter()

    def take(self) -> tuple[list[LoaderRefusal], dict[str, int]]:
        """Those that are listed; and how many are not, by reason."""
        totals = Counter(self._loader.get_stats().refused)
        found = self._loader.take_refusals()
        listed = Counter(refusal.reason for refusal in found)
        # Some may have come between the two calls: they are listed, and counted next time.
        unlisted = totals - self._counted - listed
        self._counted += listed + unlisted
        return [
            LoaderRefusal(
                reason=one.reason,
                detail=one.detail[:_MOST_DETAIL],
                file=_text(one.file),
                member=_text(one.member),
                offset=one.offset,
            )
            for one in found
        ], dict(unlisted)


def _text(name: str) -> str:
    """A file's name as text that can be written; bytes that are no UTF-8 are escaped."""
    return name.encode("utf-8", "backslashreplace").decode()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
