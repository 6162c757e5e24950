"""What the loop knows of the cluster: where its workers run, what they wait for, what travelled to which node."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ludus.runtime.ray.messages import Connected, FromConnection, Placed, Room, Sent, Waits
from ludus.runtime.ray.nodes import NodeRoom
from ludus.runtime.ray.transfers import Transfers
from ludus.runtime.readings import NodeReading

log = logging.getLogger(__name__)


class ClusterView:
    """Told by the connection, in the loop's thread; read by any."""

    def __init__(self, tell: Callable[..., None] = lambda kind, **fields: None) -> None:
        """`tell` gets `worker_waits` and `worker_placed`, for people."""
        self._tell = tell
        self._names: dict[int, str] = {}
        """Of workers by the number of their start, as below."""
        self._expected = self._spare = 0
        self.count = 0
        """Nodes of the cluster."""
        self.nodes: tuple[NodeReading, ...] = ()
        """The first of them, as they are now."""
        self._nodes: dict[int, str] = {}
        self._waits: dict[int, str] = {}
        self.transfers = Transfers()

    @property
    def waits(self) -> tuple[str, ...]:
        """What is waited for."""
        return tuple(self._waits.values())

    def expect(self, number: int, name: str) -> None:
        """A worker is about to be started."""
        self._names[number] = name
        self._expected, self._spare = number, 0

    def forget(self, number: int) -> None:
        """A worker has ended."""
        for known in (self._names, self._nodes):
            known.pop(number, None)
        self._waits = {other: why for other, why in self._waits.items() if other != number}

    def node_of(self, number: int) -> str:
        """The name of the node of a worker; empty before it has one."""
        return self._nodes.get(number, "")

    @property
    def has_spare(self) -> bool:
        """Whether the cluster has room for a further explorer."""
        return self._spare > 0

    def take(self, said: FromConnection) -> None:
        """Take in one message."""
        if isinstance(said, Connected):
            self.count, self._waits = said.count, {}
        elif isinstance(said, Waits):
            self._waits = {**self._waits, said.number: said.reason}
            log.warning("%s", said.reason)
            self._tell("worker_waits", reason=said.reason)
        elif isinstance(said, Placed):
            self._nodes[said.number] = said.node
            self._waits = {number: why for number, why in self._waits.items() if number != said.number}
            self._tell("worker_placed", worker=self._names.get(said.number, ""), node=said.node)
        elif isinstance(said, Room):
            self.count, self.nodes = said.nodes, tuple(map(_reading, said.table))
            self._spare = said.spare if said.seen >= self._expected else 0
        elif isinstance(said, Sent):
            self.transfers.add(said)


def _reading(node: NodeRoom) -> NodeReading:
    total, free = node.total, node.free
    return NodeReading(
        name=node.name,
        cpus=total.get("CPU", 0.0),
        free_cpus=free.get("CPU", 0.0),
        gpus=total.get("GPU", 0.0),
        free_gpus=free.get("GPU", 0.0),
    )
