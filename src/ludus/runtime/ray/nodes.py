"""The nodes of a cluster as a run sees them, and which worker goes to which.

Invariant: what is planned fits: no node gets more than it has free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ludus.runtime.needs import Needs, Wanted, amounts_in_words

MOST_NAMED = 5
"""Nodes that a sentence lists."""
_UNTOLD = ("memory", "object_store_memory")


class NodeRoom(msgspec.Struct, kw_only=True):
    """A node with what it has."""

    id: str
    name: str
    total: dict[str, float] = {}
    free: dict[str, float] = {}
    labels: dict[str, str] = {}

    def __str__(self) -> str:
        """Such as `node 10.0.0.2 has 4 CPU, 1 GPU`."""
        labels = [f"{name}={value}" for name, value in self.labels.items() if not name.startswith("ray.io/")]
        return f"{self.name} has {', '.join([amounts_in_words(self.total), *labels])}"


def node_rooms(table: Sequence[Mapping[str, Any]], free: Mapping[str, Mapping[str, float]]) -> list[NodeRoom]:
    """What Ray's table of nodes says of those that live; `free` by node, where that is known."""
    alive = [node for node in table if node["Alive"]]
    shared = Counter(node["NodeName"] for node in alive)
    return [
        NodeRoom(
            id=node["NodeID"],
            name=node["NodeName"] if shared[node["NodeName"]] == 1 else f"{node['NodeName']}#{node['NodeID'][:6]}",
            total=_told(node["Resources"]),
            free=_told(free.get(node["NodeID"], {})),
            labels=dict(node.get("Labels") or {}),
        )
        for node in alive
    ]


def known_nodes(infos: Iterable[Any]) -> list[NodeRoom]:
    """What the head tells of nodes that live, before it is joined: not what is free there."""
    alive = [info for info in infos if info.state == info.ALIVE]
    table = [
        {
            "Alive": True,
            "NodeID": info.node_id.hex(),
            "NodeName": info.node_name,
            "Resources": dict(info.resources_total),
            "Labels": dict(info.labels),
        }
        for info in alive
    ]
    return node_rooms(table, {})


def plan_places(workers: Iterable[Wanted], nodes: Sequence[NodeRoom]) -> tuple[dict[str, str], list[Wanted]]:
    """The node (id) of each worker, spread over what nodes have free; and the workers that none has room for."""
    by_size = sorted(workers, key=lambda each: (bool(each.needs.beside), -sum(each.needs.amounts().values())))
    spread, packed = _place(by_size, nodes, most_free_first=True), _place(by_size, nodes, most_free_first=False)
    return spread if len(spread[1]) <= len(packed[1]) else packed


def left_over(workers: Iterable[Wanted], places: Mapping[str, str], nodes: Iterable[NodeRoom]) -> list[NodeRoom]:
    """The nodes with what they have free once the workers are in their places."""
    free = {node.id: dict(node.free) for node in nodes}
    for worker in workers:
        if worker.name in places:
            _take(worker.needs, free[places[worker.name]])
    return [msgspec.structs.replace(node, free=free[node.id]) for node in nodes]


def count_room(needs: Needs, nodes: Iterable[NodeRoom], most: int) -> int:
    """How many workers with these needs fit into what nodes have free, up to `most`."""
    count = 0
    for node in nodes:
        free = dict(node.free)
        while count < most and needs.fits(free, node.labels):
            _take(needs, free)
            count += 1
    return count


def refusal(workers: Sequence[Wanted], nodes: Sequence[NodeRoom]) -> str:
    """Why these workers cannot run on these nodes, in one sentence; empty where they can."""
    for worker in workers:
        if not any(worker.needs.fits(node.total, node.labels) for node in nodes):
            return f"{worker.name} needs {worker.needs}, and no node has that: {in_words(nodes)}"
    empty = [msgspec.structs.replace(node, free=node.total) for node in nodes]
    lacking = plan_places(workers, empty)[1]
    if not lacking:
        return ""
    names = lacking[0].name if len(lacking) == 1 else f"{lacking[0].name} and {len(lacking) - 1} more workers"
    return (
        f"{names} would find no room beside the others, needing {lacking[0].needs} each: the {len(workers)} workers of "
        f"the run do not fit on the cluster together: {in_words(nodes)}"
    )


def in_words(nodes: Sequence[NodeRoom]) -> str:
    """What the nodes have."""
    more = len(nodes) - MOST_NAMED
    return "; ".join([*map(str, nodes[:MOST_NAMED]), *([f"and {more} more nodes"] if more > 0 else [])])


def _place(
    workers: Sequence[Wanted], nodes: Sequence[NodeRoom], *, most_free_first: bool
) -> tuple[dict[str, str], list[Wanted]]:
    left = {node.id: dict(node.free) for node in nodes}
    taken: Counter[str] = Counter()
    grouped: Counter[tuple[str, str]] = Counter()
    places: dict[str, str] = {}
    lacking = []
    for worker in workers:
        beside = worker.needs.beside
        near = {place for name, place in places.items() if not beside or name.startswith(beside)}
        fitting = [
            node.id
            for node in nodes
            if worker.needs.fits(left[node.id], node.labels) and (not beside or node.id in near)
        ]
        if not fitting:
            lacking.append(worker)
            continue
        order = {id: (left[id].get("CPU", 0.0), -taken[id]) for id in fitting}
        if worker.needs.group:
            most = max(grouped[worker.needs.group, id] for id in fitting)
            fitting = [id for id in fitting if grouped[worker.needs.group, id] == most]
        chosen = max(fitting, key=order.__getitem__) if most_free_first else min(fitting, key=order.__getitem__)
        grouped[worker.needs.group, chosen] += 1
        places[worker.name] = chosen
        taken[chosen] += 1
        _take(worker.needs, left[chosen])
    return places, lacking


def _take(needs: Needs, free: dict[str, float]) -> None:
    for name, amount in needs.amounts().items():
        free[name] = free.get(name, 0.0) - amount


def _told(resources: Mapping[str, float]) -> dict[str, float]:
    """Without what Ray counts for itself."""
    return {name: value for name, value in resources.items() if name not in _UNTOLD and not name.startswith("node:")}
