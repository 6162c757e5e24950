"""A run as a service: one JSON object a line, in and out. `ludus daemon` serves it, `ludus tui` is a client of it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ludus.daemon.client import Client
    from ludus.daemon.driver import Driver
    from ludus.daemon.messages import Payload
    from ludus.daemon.schema import protocol_schema
    from ludus.daemon.service import Service
    from ludus.daemon.sockets import ControlSocket, connect

__all__ = ["Client", "ControlSocket", "Driver", "Payload", "Service", "connect", "protocol_schema"]

_HOMES = {
    "Client": "client",
    "ControlSocket": "sockets",
    "Driver": "driver",
    "Payload": "messages",
    "Service": "service",
    "connect": "sockets",
    "protocol_schema": "schema",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
