"""Whom an engine may call: URLs without secrets in them, and keys that come from the environment only."""

from __future__ import annotations

import ipaddress
import logging
import os
from urllib.parse import urlsplit

from ludus.errors import ConfigError

log = logging.getLogger(__name__)


def check_url(url: str) -> str:
    """The URL without a slash at its end.

    Raises:
        ConfigError: it is no URL, or it carries what belongs in the environment.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"endpoint {url!r}: expected a URL such as http://127.0.0.1:8000/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigError(
            f"endpoint at {parts.hostname}: a URL may not carry a password or a query; keys come from the environment"
        )
    return url.rstrip("/")


def read_key(url: str, variable: str | None) -> str:
    """The key that an environment variable has; empty where no variable is named.

    Raises:
        ConfigError: the variable is not set, or what it has cannot be sent.
    """
    if variable is None:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigError(f"endpoint {url}: the environment variable {variable}, which is to have its key, is not set")
    if not key.isascii() or not key.isprintable():
        raise ConfigError(f"endpoint {url}: the environment variable {variable} has characters that no key has")
    parts = urlsplit(url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        log.warning("the key for %s goes over the network unencrypted; use https", url)
    return key


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, where nobody else can reach it."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def without_port(host: str) -> str:
    """The name in a `Host` header, in small letters; empty where it is none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
