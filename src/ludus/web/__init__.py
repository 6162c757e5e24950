"""The web dashboard: a local page over every run below a folder. A process of its own that only reads.

Invariant: nothing here writes in a run's directory; a live run is spoken to through its control socket, as any client
does. A new page is a module in `api/` whose `ROUTES` are in `api/__init__.py`, and a page in `web/src/pages`. What
loads Starlette is imported when it is first asked for.
"""

from typing import TYPE_CHECKING

from ludus.lazy import import_later

if TYPE_CHECKING:
    from ludus.web.app import make_app
    from ludus.web.runs_folder import RunsFolder
    from ludus.web.site import Site

__all__ = ["RunsFolder", "Site", "make_app"]

__getattr__ = import_later(__name__)
