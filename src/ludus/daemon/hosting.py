"""A run that was not started by a daemon, and that others can watch and drive all the same: `ludus tui RUN`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from ludus.daemon.service import LogToClients, Service
from ludus.daemon.sockets import ControlSocket
from ludus.runs.staged import AnyRun


@contextmanager
def hosted(loop: AnyRun) -> Iterator[Service]:
    """While the block lasts, clients reach the run through its control socket."""
    service = Service(loop=loop)
    handler = LogToClients(service)
    logging.getLogger().addHandler(handler)
    service.start()
    door = ControlSocket(service)
    try:
        yield service
    finally:
        door.close()
        service.let_go()
        logging.getLogger().removeHandler(handler)
