"""A host: the Ray actor that has one worker on its node. Ray never restarts it; the loop's supervisor does.

Every argument and every result is one `bytes`, which Ray carries as it is.
"""

from __future__ import annotations

import os
import platform
from importlib import import_module

import msgspec

import ludus
from ludus.runtime.ray.hosted_worker import HostedWorker
from ludus.runtime.ray.messages import ADDRESS, Connect, Launch, NodeVersions, Put, Take

THREADS = 8
"""Calls that a host serves at once: one for each direction, signals, and those whose callers have given up."""


class Host:
    """Made on a node with a `Launch`; its calls come from the connection."""

    def __init__(self, order: bytes) -> None:
        launch = msgspec.msgpack.decode(order, type=Launch)
        os.environ.update({ADDRESS: own_address(), **launch.environment})
        self._worker = HostedWorker(launch)

    def node(self, nothing: bytes) -> bytes:
        """The node's id: the first call, answered as soon as the host has a place."""
        import ray

        return str(ray.get_runtime_context().get_node_id()).encode()

    def put(self, put: bytes) -> bytes:
        """Bytes for the worker."""
        return msgspec.msgpack.encode(self._worker.put(msgspec.msgpack.decode(put, type=Put)))

    def take(self, take: bytes) -> bytes:
        """What is new of the worker."""
        return msgspec.msgpack.encode(self._worker.take(msgspec.msgpack.decode(take, type=Take)))

    def write_stack(self) -> bytes:
        """Have the worker write its stacks to its log."""
        self._worker.write_stack()
        return b""

    def kill(self) -> bytes:
        """Kill the worker; the host lives on to tell how it ended."""
        self._worker.kill()
        return b""

    def close(self) -> bytes:
        """Leave nothing on the node; the host is ended next."""
        self._worker.close()
        return b""


def own_address() -> str:
    """The address by which the other nodes reach this one."""
    import ray

    return str(ray.util.get_node_ip_address())


def examine_node(order: bytes) -> bytes:
    """What is installed here, and what is wrong: run once on each node before a run begins."""
    import ray

    connect = msgspec.msgpack.decode(order, type=Connect)
    os.environ.update(connect.environment)
    problems = (import_module(ask.module).node_problem(ask.values) for ask in connect.asks)
    ours = NodeVersions(
        ray=ray.__version__,
        python=platform.python_version(),
        ludus=ludus.__version__,
        problem=next(filter(None, problems), ""),
    )
    return msgspec.msgpack.encode(ours)
