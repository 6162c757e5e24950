"""What a dashboard knows of a run, and where it hears it from: shared by the terminal and the web page."""

from typing import TYPE_CHECKING

from ludus.lazy import import_later

if TYPE_CHECKING:
    from ludus.monitor.attached_source import AttachedSource
    from ludus.monitor.child_source import ChildSource
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

__getattr__ = import_later(__name__)
