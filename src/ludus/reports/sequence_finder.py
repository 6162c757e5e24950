"""The sequences of one episode: what its seats saw and did, from the rows of a run and from its traces.

Which segment and which frame an episode is in is remembered as hashes, so that a second look reads little. Invariant:
nothing here raises for what a directory holds; what is damaged or gone is passed over, and what was not recorded is
absent from `columns`, never zero.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.errors import CorruptRecord
from ludus.records import Experiences
from ludus.storage.arrow import experiences_from_batch
from ludus.storage.segment_file import open_segment, segment_name, segment_starts
from ludus.storage.traces import Frame, TracedSequence, scan_frames, trace_files

MOST_ROWS = 2_000_000
"""Rows of a log that are known by their hash; older segments are not looked into."""
ROW_COLUMNS = ("action", "mask", "logp", "value", "reward", "version")
TRACE_COLUMNS = ("trainer_logp", "advantage", "target", "ref_logp", "teacher_logp")
Hashes = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceView:
    """One sequence of an episode."""

    seat: int
    turn: int | None
    policy: str
    group: str
    final_reward: float
    shaped_reward: float
    status: str
    """`verified`, `refused`, or `traced` where only the trace is left."""
    reason: str = ""
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """`[T]` each."""
    update: int | None = None
    """Of the trace, where there is one."""

    @property
    def length(self) -> int:
        """Elements."""
        return len(next(iter(self.columns.values()), ()))

    def derived(self) -> dict[str, NDArray[Any]]:
        """The columns, and what follows from them: the ratio and the KL to the reference (k3), where both are known."""
        columns = dict(self.columns)
        mask = np.asarray(columns.get("mask", np.zeros(0)), bool)
        with np.errstate(over="ignore", invalid="ignore"):
            if {"trainer_logp", "logp"} <= columns.keys():
                columns["ratio"] = np.where(mask, np.exp(columns["trainer_logp"] - columns["logp"]), np.nan)
            if {"trainer_logp", "ref_logp"} <= columns.keys():
                apart = columns["ref_logp"] - columns["trainer_logp"]
                columns["kl"] = np.where(mask, np.exp(apart) - 1.0 - apart, np.nan)
        return columns


class SequenceFinder:
    """Sequences of one run by episode. Any thread."""

    def __init__(self, run_dir: Path) -> None:
        self._run = run_dir
        self._segments: dict[str, dict[int, Hashes]] = {"experiences": {}, "refused": {}}
        self._frames: dict[Path, tuple[int, list[tuple[Frame, Hashes]]]] = {}
        self._lock = threading.Lock()

    def find(self, episode: str) -> list[SequenceView]:
        """Every sequence of an episode, by seat and turn."""
        with self._lock:
            traces = self._traces(episode)
            found = {_place(view): view for log in ("refused", "experiences") for view in self._rows(log, episode)}
        for place, (update, traced) in traces.items():
            found[place] = _with_trace(found.get(place), traced, update)
        return [found[place] for place in sorted(found)]

    def traced_episodes(self, most: int) -> list[str]:
        """Episodes of which there are traces, newest first."""
        with self._lock:
            self._refresh_frames()
            frames = [frame for _, known in self._frames.values() for frame, _ in known]
        names: dict[str, None] = {}
        for frame in sorted(frames, key=lambda each: -each.update):
            if len(names) >= most:
                break
            names |= dict.fromkeys(each.episode for each in _read(frame))
        return list(names)[:most]

    def _rows(self, log: str, episode: str) -> Iterator[SequenceView]:
        wanted = hash(episode)
        self._refresh_rows(log)
        for start, hashes in self._segments[log].items():
            places = np.flatnonzero(hashes == wanted)
            if not len(places):
                continue
            rows = self._open(log, start)
            if rows is None:
                continue
            chosen = [place for place in places.tolist() if rows.sequences["episode"][place] == episode]
            yield from (_view(rows.take([place]), log) for place in chosen)

    def _refresh_rows(self, log: str) -> None:
        starts, known = segment_starts(self._run / log), self._segments[log]
        for gone in known.keys() - set(starts):
            del known[gone]
        count = 0
        for start in reversed(starts):
            if count > MOST_ROWS:
                return
            if start not in known:
                rows = self._open(log, start)
                names = () if rows is None else rows.sequences["episode"].tolist()
                known[start] = np.fromiter((hash(name) for name in names), np.int64, len(names))
            count += len(known[start])

    def _open(self, log: str, start: int) -> Experiences | None:
        try:
            return experiences_from_batch(open_segment(self._run / log / segment_name(start), log=log)[1])
        except (CorruptRecord, ValueError):
            return None

    def _traces(self, episode: str) -> dict[tuple[int, int], tuple[int, TracedSequence]]:
        """By seat and turn: the newest update that saw it, and what it saw."""
        self._refresh_frames()
        wanted, found = hash(episode), dict[tuple[int, int], tuple[int, TracedSequence]]()
        for _, known in self._frames.values():
            for frame, hashes in known:
                if (hashes == wanted).any():
                    mine = [each for each in _read(frame) if each.episode == episode]
                    found |= {(each.seat, each.turn): (frame.update, each) for each in mine}
        return found

    def _refresh_frames(self) -> None:
        files = trace_files(self._run / "traces")
        self._frames = {path: known for path, known in self._frames.items() if path in files}
        for path in files:
            try:
                size = path.stat().st_size
            except OSError:
                continue
            if path not in self._frames or self._frames[path][0] != size:
                self._frames[path] = size, [(frame, _hashes(frame)) for frame in scan_frames(path)]


def _hashes(frame: Frame) -> Hashes:
    names = [each.episode for each in _read(frame)]
    return np.fromiter((hash(name) for name in names), np.int64, len(names))


def _read(frame: Frame) -> list[TracedSequence]:
    try:
        return frame.read()
    except CorruptRecord:
        return []


def _place(view: SequenceView) -> tuple[int, int]:
    return view.seat, -1 if view.turn is None else view.turn


def _view(row: Experiences, log: str) -> SequenceView:
    columns = {name: column[0] for name, column in row.sequences.items()}
    return SequenceView(
        seat=int(columns["seat"]),
        turn=int(columns["turn"]) if "turn" in columns else None,
        policy=str(columns["policy"]),
        group=str(columns["group"]),
        final_reward=float(columns["final_reward"]),
        shaped_reward=float(columns["shaped_reward"]),
        status="refused" if log == "refused" else "verified",
        reason=str(columns.get("reason", "")),
        columns={name: np.array(row.steps[name]) for name in ROW_COLUMNS if name in row.steps},
    )


def _with_trace(view: SequenceView | None, traced: TracedSequence, update: int) -> SequenceView:
    """A sequence with what the trainer thought of it; the trace alone where the row is gone."""
    arrays = traced.arrays
    if view is None or view.length != len(next(iter(arrays.values()), ())):
        columns, status, reason = arrays, "traced", ""
    else:
        more = {name: arrays[name] for name in TRACE_COLUMNS if name in arrays}
        columns, status, reason = {**view.columns, **more}, view.status, view.reason
    return SequenceView(
        seat=traced.seat,
        turn=None if traced.turn < 0 else traced.turn,
        policy=traced.policy,
        group=traced.group,
        final_reward=traced.final_reward,
        shaped_reward=traced.shaped_reward,
        status=status,
        reason=reason,
        columns=columns,
        update=update,
    )
