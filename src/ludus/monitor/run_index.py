"""All runs below a folder, as rows that can be filtered, sorted and grouped; kept, and read again when files change.

Invariant: a run is read again only when one of its files has changed or its process has come or gone, and one that is
being written to at most every `LIVE_S` seconds; one that cannot be read is a row with its error and hides no other.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ludus.config import RunConfig, load_config
from ludus.errors import LudusError
from ludus.monitor.config_memo import ConfigMemo
from ludus.reports.run_facts import RunFacts, read_run_facts
from ludus.storage.jsonl import rotated
from ludus.storage.lock import RunLock
from ludus.storage.run_directory import RunDirectory, StagedDirectory, find_run

LIVE_S = 5.0
Signature = tuple[object, ...]


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """One run in the list."""

    id: str
    folder: str
    """The path above it: what people group a study by."""
    state: str
    """As `RunFacts` has it; `unreadable` where its files cannot be read."""
    plays: str = ""
    """Its games and tasksets."""
    algorithm: str = ""
    facts: RunFacts | None = None
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """The row as the page and programs get it; not to be changed."""
        return self._told

    @cached_property
    def _told(self) -> dict[str, Any]:
        facts = {} if self.facts is None else asdict(self.facts)
        facts.pop("path", None)
        own = {name: getattr(self, name) for name in ("id", "folder", "state", "plays", "algorithm")}
        result = "" if self.facts is None else self.facts.result_text()
        return {**facts, **own, "error": self.error or facts.get("error", ""), "result_text": result}


@dataclass(slots=True)
class _Kept:
    signature: Signature
    row: RunRow
    at_s: float = field(default_factory=time.monotonic)


class RunIndex:
    """Rows of all runs. Any thread may ask; one reads at a time."""

    def __init__(self, root: Path, ids: Callable[[], Iterable[str]]) -> None:
        """`ids` gives the runs below `root` by their relative paths."""
        self._root, self._ids = root, ids
        self._kept: dict[str, _Kept] = {}
        self._configs = ConfigMemo()
        self._lock = threading.Lock()

    def warm(self) -> None:
        """Begin to read what there is, so that it is known when somebody asks. Nobody waits for it, nor for its end."""
        threading.Thread(target=self._warm, name="ludus-run-index", daemon=True).start()

    def _warm(self) -> None:
        with contextlib.suppress(OSError):  # whoever asks for the list is told
            self.rows()

    def rows(self) -> list[RunRow]:
        """All runs as they are now."""
        with self._lock:
            now = list(self._ids())
            self._kept = {id: self._look(id) for id in now}
            return [kept.row for kept in self._kept.values()]

    def _look(self, id: str) -> _Kept:
        path, kept = self._root / id, self._kept.get(id)
        is_fresh = kept is not None and time.monotonic() - kept.at_s < LIVE_S
        signature = _signature(path)
        if kept is not None and (kept.signature == signature or (is_fresh and kept.row.state == "running")):
            return kept
        return _Kept(signature, read_row(path, id, self._configs.load))


def read_row(path: Path, id: str, load: Callable[[Path], RunConfig] = load_config) -> RunRow:
    """One run; never raises for what its files hold."""
    folder = id.rpartition("/")[0]
    try:
        id.encode()
    except UnicodeEncodeError:  # no address can name it
        return RunRow(id=id, folder=folder, state="unreadable", error="its folder's name is not UTF-8; rename it")
    try:
        config = load(path / "config.yaml")
        facts = read_run_facts(path, config)
    except (LudusError, OSError, ValueError) as error:
        why = str(error).strip().partition("\n")[0]
        return RunRow(id=id, folder=folder, state="unreadable", error=why[:500] or type(error).__name__)
    plays = [
        *(game.key for game in getattr(config, "games", ())),
        *(task.name for task in getattr(config, "tasks", ())),
    ]
    algorithm = _algorithm(path, config, load)
    return RunRow(id=id, folder=folder, state=facts.state, plays=", ".join(plays), algorithm=algorithm, facts=facts)


def _algorithm(path: Path, config: RunConfig, load: Callable[[Path], RunConfig]) -> str:
    """What trains; of a run in stages what trains in the newest."""
    newest = find_run(path).path
    if newest != path:
        with contextlib.suppress(LudusError, OSError, ValueError):
            config = load(newest / "config.yaml")
    if config.population is not None and config.population.oracle == "exact":
        return "exact PSRO"
    return str(config.train.algorithm.preset or "")


def _signature(path: Path) -> Signature:
    """What is different after anything has happened to a run."""
    staged = StagedDirectory(path)
    parts = [RunDirectory(path)]
    if staged.is_staged():
        parts += [RunDirectory(child) for child in sorted(path.iterdir()) if RunDirectory(child).is_run()][-2:]
    files = [staged.stages]
    for run in parts:
        files += [run.config, run.events, run.metrics, rotated(run.metrics), run.catalog]
    holder = RunLock.holder(path)
    return (None if holder is None else holder.get("pid"), *map(_state_of_file, files))


def _state_of_file(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
