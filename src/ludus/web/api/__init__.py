"""What the page asks for: one module for each of its pages, and all their routes.

To add a page's data: a module here with its `ROUTES`, and its name in the sum below.
"""

from ludus.web.api import commands, compare, episodes, league, matches, metrics, news, play, run_page, runs, sessions
from ludus.web.routes import Route

ROUTES: tuple[Route, ...] = (
    *sessions.ROUTES,
    *runs.ROUTES,
    *compare.ROUTES,
    *run_page.ROUTES,
    *metrics.ROUTES,
    *news.ROUTES,
    *commands.ROUTES,
    *league.ROUTES,
    *episodes.ROUTES,
    *play.ROUTES,
    *matches.ROUTES,
)

__all__ = ["ROUTES"]
