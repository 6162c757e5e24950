"""Sessions of browsers: an id in a cookie that no script reads, and a CSRF value that only the page's own script gets.

Invariant: the control token works once, and only it makes a session that may control; tokens are compared in constant
time and stand in no address that the server is asked for. Sessions end with the process.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie

CSRF_HEADER = "x-ludus-csrf"
MOST_SESSIONS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One browser."""

    may_read: bool
    may_control: bool = False
    id: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    def has_csrf(self, given: str) -> bool:
        """Whether a request carries this session's CSRF value."""
        return hmac.compare_digest(given.encode(), self.csrf.encode())


class Sessions:
    """All sessions of a server."""

    def __init__(self, *, token: str = "", control: bool = False, port: int = 0) -> None:
        """`token` is what every reader needs; `control` makes a second one, for one browser that may command."""
        self._token = token
        self.control_token = secrets.token_urlsafe(24) if control else ""
        """Empty when nobody may control, or when it has been used."""
        self.has_control = control
        self.cookie_name = f"ludus_web_{port}"
        """Cookies do not know ports: two servers must not take each other's."""
        self._sessions: dict[str, Session] = {}

    @property
    def needs_token(self) -> bool:
        """Whether only those with a token may read."""
        return bool(self._token)

    def find(self, cookies: str) -> Session | None:
        """The session of a request's `Cookie` header."""
        try:
            given = SimpleCookie(cookies[:4096]).get(self.cookie_name)
        except CookieError:
            return None
        return self._sessions.get(given.value) if given is not None else None

    def enter(self, token: str) -> Session | None:
        """A new session for whoever has a token; where none is needed, one that may read for everybody."""
        given = token.encode()
        if self.control_token and hmac.compare_digest(given, self.control_token.encode()):
            self.control_token = ""
            return self._add(Session(may_read=True, may_control=True))
        if self._token and hmac.compare_digest(given, self._token.encode()):
            return self._add(Session(may_read=True))
        return None if self._token or token else self._add(Session(may_read=True))

    def _add(self, session: Session) -> Session:
        while len(self._sessions) >= MOST_SESSIONS:
            weakest = min(self._sessions.values(), key=lambda each: each.may_control)
            del self._sessions[weakest.id]
        self._sessions[session.id] = session
        return session
