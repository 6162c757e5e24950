"""`ludus daemon`: a run that other programs start, drive and watch, by lines of JSON."""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ludus.cli.arguments import Plugins, StrictResume
from ludus.cli.run import catch_signals

if TYPE_CHECKING:
    from ludus.daemon.client import Client


def daemon(
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of all messages, and end.")] = False,
    plugin: Plugins = None,
    strict_resume: StrictResume = False,
) -> None:
    """Serve a run over standard input and output, one JSON object a line.

    A line is {"type": ..., "payload": {...}, "id": ...}.

    Standard output carries the protocol and nothing else; standard error is the log. The end of the input, SIGTERM or
    SIGINT save the run and end it; the same a second time ends it at once, and what is on disk is consistent anyway.

    \b
    Example:
      $ ludus daemon
      {"type": "start_training", "payload": {"config": "examples/connect_four.yaml"}, "id": 1}
      {"type": "pause", "id": 2}
      {"type": "checkpoint", "id": 3}
      {"type": "shutdown", "id": 4}
    All messages: docs/protocol.md. A dashboard on top of it: ludus tui CONFIG
    """
    if schema:
        from ludus.daemon.schema import protocol_schema

        typer.echo(json.dumps(protocol_schema(), indent=2))
        return
    protocol = take_standard_output()
    logging.getLogger("ludus").setLevel(logging.INFO)
    serve(protocol, [str(file) for file in plugin or []], strict_resume=strict_resume)


def take_standard_output() -> int:
    """Keep standard output for the protocol: whatever else writes there, children included, goes to the log."""
    sys.stdout.flush()
    protocol = os.dup(1)
    os.set_inheritable(protocol, False)
    os.dup2(2, 1)
    return protocol


def serve(protocol: int, plugins: list[str], *, strict_resume: bool) -> None:
    """Serve the client at standard input until it, or a signal, ends it."""
    from ludus.daemon.client import Client
    from ludus.daemon.launch import open_loop
    from ludus.daemon.messages import StartTraining
    from ludus.daemon.service import LogToClients, Service
    from ludus.daemon.sockets import ControlSocket
    from ludus.runs.staged import AnyRun

    def opener(wanted: StartTraining) -> AnyRun:
        return open_loop(
            Path(wanted.config or wanted.config_filepath or ""),
            wanted.overrides,
            run_dir=None if wanted.run_dir is None else Path(wanted.run_dir),
            plugins=plugins,
            strict_resume=strict_resume,
            from_scratch=wanted.from_scratch,
        )

    service = Service(opener=opener)
    catch_signals(service.shut_down, lambda: service.is_ending)
    logging.getLogger().addHandler(LogToClients(service))
    service.start()
    door = ControlSocket(service)

    def at_end(client: Client) -> None:
        logging.getLogger(__name__).info("the input has ended: the run is saved and the daemon ends")
        service.shut_down()

    service.add(Client("standard input", reads=0, writes=protocol), at_end)
    while not service.wait(0.5):
        pass
    door.close()
    service.finish()
    # Threads that still wait for their turn would end with the interpreter, in the middle of native code; all is saved.
    logging.shutdown()
    sys.stderr.flush()
    os._exit(0)
