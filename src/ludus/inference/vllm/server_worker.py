"""A worker process that has one vLLM server: on this machine or on a node, started, watched and ended like any worker.

The worker fails when its server ends or is silent for long, and the supervisor starts another; what the server says is
in the worker's log. Invariant: the loop is told of a server when it answers, with the address that its own node has it
under.
"""

from __future__ import annotations

import logging
import os
import time

import msgspec

from ludus.errors import WorkerError
from ludus.inference.vllm.server import (
    NoSuchProgram,
    ServerOrder,
    ServerProcess,
    command_line,
    environment_of,
    free_port,
    share_of_gpus,
)
from ludus.lm.model_folder import find_model_folder
from ludus.lm.node_models import folder_to_bring
from ludus.lm.untied_folder import write_untied_folder
from ludus.runtime import Channel, NodeFiles, Pulse, Stop, run_worker
from ludus.runtime.remote_files import RemoteFiles
from ludus.storage.run_directory import RunDirectory

log = logging.getLogger(__name__)

LOOK_S = 0.5
"""Between two looks at a server that has yet to answer,"""
WATCH_S = 5.0
"""and at one that does."""
SILENT_S = 120.0
"""A server that lists no models for so long is lost."""
END_S = FAREWELL_S = 5.0


class Serving(msgspec.Struct, tag="serving", kw_only=True):
    """The server answers."""

    url: str


class ServerBroken(msgspec.Struct, tag="server_broken", kw_only=True):
    """The server is lost."""

    reason: str
    is_final: bool = False
    """Whether another one could not be started here either."""


ToServer = ServerOrder | Stop
FromServer = Serving | ServerBroken


def serve(channel: Channel[object], pulse: Pulse, files: NodeFiles) -> None:
    """Have a server until told to stop; when it is lost, say so and end."""
    order = _await_order(channel)
    if order is None:
        return
    try:
        _watch(order, channel, pulse, files)
    except WorkerError as error:
        log.error("%s", error)
        channel.send(ServerBroken(reason=str(error), is_final=isinstance(error, NoSuchProgram)))
        channel.drain(FAREWELL_S)
        raise SystemExit(1) from None


def _watch(order: ServerOrder, channel: Channel[object], pulse: Pulse, files: NodeFiles) -> None:
    server = _start(order, files)
    begun = heard = time.monotonic()
    is_told = False
    try:
        while not any(isinstance(message, Stop) for message, _ in channel.wait(WATCH_S if is_told else LOOK_S)):
            pulse.tick()
            server.check_alive()
            now = time.monotonic()
            if server.answers():
                heard = now
                if not is_told:
                    is_told = True
                    channel.send(Serving(url=server.url))
            elif not is_told and now - begun > order.start_s:
                raise WorkerError(f"the inference server did not answer within {order.start_s:g} s")
            elif is_told and now - heard > SILENT_S:
                raise WorkerError(f"the inference server has not answered for {SILENT_S:g} s")
    finally:
        server.end(END_S)


def _await_order(channel: Channel[object]) -> ServerOrder | None:
    while True:
        for message, _ in channel.wait(None):
            if isinstance(message, Stop):
                return None
            if isinstance(message, ServerOrder):
                return message


def _start(order: ServerOrder, files: NodeFiles) -> ServerProcess:
    path, port = files.model(order.model), free_port()
    model = str(folder_to_bring(path) or path)
    if order.lora_rank is None:  # its output head must be a tensor of its own before weights can be exchanged
        room = RunDirectory(files.run).serving
        model = str(write_untied_folder(find_model_folder(path), room / f"base-{order.number}").resolve())
    on_node = isinstance(files, RemoteFiles)  # where Ray has chosen the GPUs
    gpus = {} if on_node else share_of_gpus(order, os.environ)
    return ServerProcess(command_line(order, model, port), port, {**environment_of(order), **gpus})


def main() -> None:
    """Entry point of the process."""
    run_worker(ToServer, serve, lambda reason: ServerBroken(reason=reason))


if __name__ == "__main__":
    main()
