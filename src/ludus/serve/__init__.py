"""Pool members over the OpenAI API: what `ludus serve` runs.

    request -> access (token, host) -> app (routes) -> chat_request (checked) -> writer (engine, text) -> answers (JSON)

Requests and answers themselves are `ludus.http`. What loads Starlette is imported when it is
first asked for.
"""

from typing import TYPE_CHECKING

from ludus.lazy import import_later

if TYPE_CHECKING:
    from ludus.http.server import serving
    from ludus.serve.app import Service, make_app, open_service
    from ludus.serve.members import Members
    from ludus.serve.writer import Writer

__all__ = ["Members", "Service", "Writer", "make_app", "open_service", "serving"]

__getattr__ = import_later(__name__)
