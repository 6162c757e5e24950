"""Where the workers of a run would go on a cluster that it joins: what `ludus check` prints. Nothing is started."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ludus.config import RunConfig
from ludus.errors import ConfigError, WorkerError
from ludus.orchestrator.placement import plan_workers
from ludus.runtime.needs import amounts_in_words
from ludus.runtime.ray.connection_client import ConnectionClient
from ludus.runtime.ray.nodes import NodeRoom, count_room, left_over, plan_places, refusal

Row = tuple[str, str]


def check_cluster(config: RunConfig) -> list[Row]:
    """The nodes of the cluster with what they have free and which workers would go there.

    Raises:
        ConfigError: it cannot be joined, or a worker fits on no node.
    """
    if config.runtime.kind != "ray" or config.runtime.address is None:
        return []
    try:
        nodes = _look(config.runtime.address)
    except WorkerError as error:
        raise ConfigError(str(error)) from error
    plan = plan_workers(config)
    problem = refusal(plan.workers, nodes)
    if problem and not plan.autoscaler_s:
        raise ConfigError(f"runtime: {problem}")
    rows = list(_rows(config, nodes))
    return [*rows, ("autoscaler", f"is asked for what is missing: {problem}")] if problem else rows


def _look(address: str) -> list[NodeRoom]:
    with tempfile.TemporaryDirectory(prefix="ludus-look-") as folder:
        client = ConnectionClient(Path(folder) / "ray.log", address=address, is_look=True)
        client.close()
        return client.nodes


def _rows(config: RunConfig, nodes: list[NodeRoom]) -> Iterator[Row]:
    plan = plan_workers(config)
    places, waiting = plan_places(plan.workers, nodes)
    for node in nodes:
        here = [name for name, id in places.items() if id == node.id]
        share = Counter(name.partition("-")[0] for name in here)
        workers = ", ".join(f"{count} {room}s" if count > 1 else room for room, count in share.items())
        free = amounts_in_words({name: node.free.get(name, 0.0) for name in node.total})
        yield f"node {node.name}", f"{workers or 'no worker'}; free: {free} of {amounts_in_words(node.total)}"
    if waiting:
        names = ", ".join(each.name for each in waiting)
        yield "no room now", f"{names}: they wait until somebody leaves the cluster"
    if plan.spare is not None:
        count = count_room(plan.spare, left_over(plan.workers, places, nodes), plan.most_spare)
        yield "further explorers", f"up to {plan.most_spare} as nodes have room; {count} now"
