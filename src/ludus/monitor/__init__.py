"""What a dashboard knows of a run, and where it hears it from: shared by the terminal and the web page."""

from ludus.monitor.live_sources import AttachedSource, ChildSource
from ludus.monitor.message_queue import MessageQueue, Reply
from ludus.monitor.run_view import RunView
from ludus.monitor.source import Connection, RecordedSource, Source

__all__ = [
    "AttachedSource",
    "ChildSource",
    "Connection",
    "MessageQueue",
    "RecordedSource",
    "Reply",
    "RunView",
    "Source",
]
