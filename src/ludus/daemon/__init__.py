"""A run as a service: one JSON object a line, in and out. `ludus daemon` serves it, `ludus tui` is a client of it."""

from typing import TYPE_CHECKING

from ludus.lazy import import_later

if TYPE_CHECKING:
    from ludus.daemon.client import Client
    from ludus.daemon.driver import Driver
    from ludus.daemon.messages import Payload
    from ludus.daemon.schema import protocol_schema
    from ludus.daemon.service import Service
    from ludus.daemon.sockets import ControlSocket, connect

__all__ = ["Client", "ControlSocket", "Driver", "Payload", "Service", "connect", "protocol_schema"]

__getattr__ = import_later(__name__)
