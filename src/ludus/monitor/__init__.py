"""What a dashboard knows of a run, and where it hears it from: shared by the terminal and the web page."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ludus.monitor.attached_source import AttachedSource
    from ludus.monitor.child_source import ChildSource
    from ludus.monitor.message_queue import MessageQueue, Reply
    from ludus.monitor.recorded_source import RecordedSource
    from ludus.monitor.run_view import RunView
    from ludus.monitor.source import Connection, Source

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

_HOMES = {
    "AttachedSource": "attached_source",
    "ChildSource": "child_source",
    "Connection": "source",
    "MessageQueue": "message_queue",
    "RecordedSource": "recorded_source",
    "Reply": "message_queue",
    "RunView": "run_view",
    "Source": "source",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
