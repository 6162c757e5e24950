"""What the dashboard knows of a run: everything that a pane draws, and nothing that a message did not say.

Invariant: bounded, whatever comes: so many metrics, so many points of each, so many lines of the log. Only the screen's
thread touches it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

from ludus.daemon import messages
from ludus.monitor.message_queue import Losses, News
from ludus.monitor.source import Connection
from ludus.reports.number_text import clean, short

MOST_LOG_LINES, MOST_POINTS, MOST_METRICS = 1000, 240, 1000
Topic = Literal["status", "metrics", "league", "episode", "log", "connection"]
LogKind = Literal["log", "event", "match", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the log pane."""

    at_s: float
    kind: LogKind
    text: str


class RunView:
    """The state of a run as far as it has been told."""

    def __init__(self) -> None:
        self.status = messages.Status(stage="IDLE")
        self.league: messages.LeagueNews | None = None
        self.episode: messages.EpisodeNews | None = None
        self.values: dict[str, float] = {}
        """The newest value of every metric."""
        self.log: deque[Entry] = deque(maxlen=MOST_LOG_LINES)
        self.logged = 0
        """Lines that were ever added to the log by news."""
        self.failure = ""
        """Why the run, or its beginning, has failed."""
        self.losses = Losses()
        self.received = 0
        self.connection = Connection(state="starting", words="")
        self.quiet_s = 0.0
        """Seconds since anything was heard."""
        self._points: dict[str, deque[tuple[int, float]]] = {}

    def curve(self, metric: str) -> list[float]:
        """The newest points of a metric, oldest first."""
        return [value for _, value in self._points.get(metric, ())]

    def absorb(self, news: News) -> set[Topic]:
        """Take what has come; returns what has changed."""
        changed: set[Topic] = set()
        if news.losses != self.losses:
            self.losses = news.losses
            changed.add("connection")
        self.received = news.received
        for payload in (*(note.what for note in news.notes), *news.states.values()):
            changed |= self._take(payload)
        for note in news.notes:
            entry = _entry(note.at_s, note.what)
            if entry is not None and not (note.is_retold and self._has_logged(entry)):
                self.log.append(entry)
                self.logged += 1
                changed.add("log")
        return changed

    def _has_logged(self, entry: Entry) -> bool:
        return any(entry.text == each.text and entry.kind == each.kind for each in self.log)

    def _take(self, payload: messages.Payload) -> set[Topic]:
        match payload:
            case messages.Status():
                return self._take_status(payload)
            case messages.ProgressNews():
                self._take_metrics(payload.step, payload.metrics)
                return {"metrics"}
            case messages.LeagueNews():
                self.league = payload
                return {"league"}
            case messages.EpisodeNews():
                self.episode = payload
                return {"episode"}
            case messages.Failure():
                self.failure = payload.message
                return {"status"}
            case _:
                return set()

    def _take_status(self, status: messages.Status) -> set[Topic]:
        if _differ(status.run_dir, self.status.run_dir) or _differ(status.part, self.status.part):
            self._points.clear()
            self.values.clear()
        self.status = _with_last_rooms(status, self.status)
        self.failure = status.error or (self.failure if status.stage in ("ERROR", "IDLE") else "")
        for name, value in status.metrics.items():
            if value is not None and (name in self.values or len(self.values) < MOST_METRICS):
                self.values[name] = value
        if status.rooms:
            self._note_point("steps_per_s", self.received, status.steps_per_s)
        return {"status", "metrics"}

    def _take_metrics(self, step: int, metrics: dict[str, float | None]) -> None:
        for name, value in metrics.items():
            if value is not None and (name in self.values or len(self.values) < MOST_METRICS):
                self.values[name] = value
                self._note_point(name, step, value)

    def _note_point(self, name: str, step: int, value: float) -> None:
        """A resumed run goes through steps again that it had done, and a reader of files through lines it was told."""
        points = self._points.setdefault(name, deque(maxlen=MOST_POINTS))
        while points and points[-1][0] >= step:
            points.pop()
        points.append((step, value))


def _differ(one: str, other: str) -> bool:
    return bool(one and other and one != other)


def _with_last_rooms(status: messages.Status, last: messages.Status) -> messages.Status:
    """Files do not tell of rooms and times: what the process said of them last stays, at rest."""
    if status.rooms or not last.rooms or _differ(status.run_dir, last.run_dir):
        return status
    at_rest = tuple(room.model_copy(update={"rate": 0.0, "load": room.load and 0.0}) for room in last.rooms)
    kept = {name: getattr(last, name) for name in ("part", "uptime_s", "schedule", "sinks", "loader")}
    return status.model_copy(update={**kept, "rooms": at_rest})


def _entry(at_s: float, payload: messages.Payload) -> Entry | None:
    """The line that a message gets in the log; None where a pane shows it already."""
    match payload:
        case messages.LogLine():
            return Entry(at_s, "log", clean(payload.line))
        case messages.Warned():
            return Entry(at_s, "warning", clean(payload.message))
        case messages.Failure():
            return Entry(at_s, "error", clean(payload.message))
        case messages.EventNews():
            fields = " ".join(f"{name}={value}" for name, value in payload.fields.items())
            return Entry(at_s, "event", clean(f"{payload.event} {fields}"[:4000]).rstrip())
        case messages.MatchNews():
            text = f"{payload.first} against {payload.second}: {payload.score:.0%} of {payload.games} games"
            return Entry(at_s, "match", clean(text))
        case messages.PolicyPublished():
            return Entry(at_s, "event", clean(f"published {payload.policy} at step {short(payload.step)}"))
        case messages.Exported():
            return Entry(at_s, "event", clean(f"exported {payload.policy} to {payload.path}"))
        case _:
            return None
