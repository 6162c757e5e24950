"""Pool members over the OpenAI API: what `ludus serve` runs.

    request -> access (token, host) -> app (routes) -> chat_request (checked) -> writer (engine, text) -> answers (JSON)

Requests and answers themselves are `ludus.http`. What loads Starlette is imported when it is
first asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ludus.serve.app import Service, make_app
    from ludus.serve.members import Members
    from ludus.serve.opening import open_service
    from ludus.serve.running import serving
    from ludus.serve.writer import Writer

__all__ = ["Members", "Service", "Writer", "make_app", "open_service", "serving"]

_HOMES = {
    "Members": "members",
    "Service": "app",
    "Writer": "writer",
    "make_app": "app",
    "open_service": "opening",
    "serving": "running",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
