"""Where hosts go: what the run needs against what nodes have, before anything is started and with every start.

Invariant: nothing is asked of Ray that no node has; what must be waited for is said.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any

import msgspec

from ludus.errors import WorkerError
from ludus.runtime.needs import Needs, Plan, Wanted
from ludus.runtime.needs import join as in_list
from ludus.runtime.ray.groups import Groups
from ludus.runtime.ray.messages import Launch
from ludus.runtime.ray.nodes import NodeRoom, count_room, node_rooms, plan_places, refusal

log = logging.getLogger(__name__)

PLACE_S = 240.0
"""A host must be there within this; a cluster without room for it is named, not waited for."""
SETTLE_S = 2.0
"""Ray tells so much later what a host has taken."""
LOOK_S = 1.0


class Placing:
    """The nodes of one cluster. For any thread."""

    def __init__(self, plan: Plan, *, is_own: bool) -> None:
        """`is_own`: a cluster that ludus started has one node, whose cores workers share as local ones do."""
        self._plan, self.is_own = plan, is_own
        self._places: dict[str, str] = {}
        self._groups = Groups(self._planned())
        self._homes: dict[str, str] = {}
        """The nodes of workers that others run beside, by name."""

    @property
    def patience_s(self) -> float:
        """How long a worker may be without a place."""
        return PLACE_S + self._plan.autoscaler_s

    def nodes(self) -> list[NodeRoom]:
        """Those that live."""
        import ray
        from ray._private import state

        return node_rooms(ray.nodes(), state.available_resources_per_node())

    def check(self, nodes: list[NodeRoom]) -> None:
        """See that the run's workers fit on these nodes, if no others come. Raises WorkerError if they do not."""
        if not self._plan.autoscaler_s and (problem := refusal(self._planned(), nodes)):
            raise WorkerError(problem)

    def settle(self, say: Callable[[str], None]) -> None:
        """See that the run's workers fit; with an autoscaler, ask for what is missing and wait for it.

        Raises:
            WorkerError: they do not.
        """
        workers = self._planned()
        if self._plan.autoscaler_s:
            self._request(workers)
        end = time.monotonic() + self._plan.autoscaler_s
        while problem := refusal(workers, nodes := self.nodes()):
            if time.monotonic() > end:
                waited = f" (waited {self._plan.autoscaler_s:g} s for the autoscaler)" * bool(self._plan.autoscaler_s)
                raise WorkerError(problem + waited)
            say(f"waiting for the cluster's autoscaler: {problem}")
            time.sleep(LOOK_S)
        self._places = plan_places(workers, nodes)[0]

    def make_host(self, launch: Launch) -> Any:
        """The actor that is to have a worker; Ray has not placed it yet.

        Raises:
            WorkerError: no node has what a worker needs that was never there; one that was lost waits for a node.
        """
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        from ludus.runtime.ray.host import THREADS, Host

        needs = self._needs(launch.needs)
        wanted = Wanted(name=launch.name, needs=msgspec.structs.replace(needs, beside=""))
        is_new = launch.incarnation <= 1 and not self._plan.autoscaler_s
        if is_new and (problem := refusal([wanted], self.nodes())):
            raise WorkerError(problem)
        place, is_member = self._choose(launch.name, needs), bool(self._groups.members(launch.name, needs.group))
        near: Any = "SPREAD"
        if is_member:
            near = self._groups.place(launch.name, needs.group)
        elif place and needs.beside:
            near = NodeAffinitySchedulingStrategy(place, soft=False)
        elif place:
            near = NodeAffinitySchedulingStrategy(place, soft=True, _spill_on_unavailable=True)
        host = ray.remote(Host).options(
            num_cpus=needs.cpus,
            num_gpus=needs.gpus,
            resources=needs.resources or None,
            label_selector=None if is_member else needs.labels or None,
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=THREADS,
            scheduling_strategy=near,
        )
        return host.remote(msgspec.msgpack.encode(launch))

    def settled(self, name: str, node: str) -> None:
        """A worker has this node. One that others run beside begins there again when it is lost."""
        if any(other.needs.beside and name.startswith(other.needs.beside) for other in self._plan.workers):
            self._homes[name] = node

    def name_of(self, node: str) -> str:
        """The name of a node by its id."""
        return next((each.name for each in self.nodes() if each.id == node), node[:6])

    def describe_wait(self, launch: Launch) -> str:
        """Why a worker has no place yet."""
        needs, nodes = self._needs(launch.needs), self.nodes()
        free = "; ".join(
            f"{node.name} has {node.free.get('CPU', 0.0):g} of {node.total.get('CPU', 0.0):g} CPU free"
            for node in nodes
            if needs.matches(node.labels)
        )
        asked = "; the autoscaler is asked for more" if self._plan.autoscaler_s else ""
        nodes_have = f"{free or 'no node has its labels'}{asked}"
        members = self._groups.members(launch.name, needs.group)
        if members:
            all_of = f"all or none of {in_list(members)} begin, and each needs {needs}"
            return f"{launch.name} has not begun yet, and waits for room: {all_of}; {nodes_have}"
        return f"{launch.name} has not begun yet, and waits for room: it needs {needs}; {nodes_have}"

    def count_spare(self) -> int:
        """How many further explorers have room now."""
        if self._plan.spare is None or self.is_own:
            return 0
        beside = self._plan.spare.beside
        nodes = [node for node in self.nodes() if not beside or node.id in self._homes.values()]
        return count_room(self._plan.spare, nodes, self._plan.most_spare)

    def release(self) -> None:
        """Give the places of groups back, and ask the autoscaler for nothing any more."""
        with leaving():
            self._groups.release()
            if self._plan.autoscaler_s:
                _request_resources([], [])

    def _choose(self, name: str, needs: Needs) -> str:
        """The node (id) for a worker, or none in particular: later starts go where there is room then."""
        planned = self._places.pop(name, "") or self._homes.get(name, "")
        if not needs.beside:
            return planned
        alive = {node.id: node for node in self.nodes()}
        near = {home for other, home in self._homes.items() if other.startswith(needs.beside) and home in alive}
        if planned in near or not near:
            return planned
        return max(near, key=lambda home: (needs.fits(alive[home].free, {}), alive[home].free.get("CPU", 0.0)))

    def _request(self, workers: list[Wanted]) -> None:
        """Ask the autoscaler for room for all of them, and for as many explorers as there may be."""
        spare = [self._plan.spare] * self._plan.most_spare if self._plan.spare is not None else []
        needs = [*(worker.needs for worker in workers), *spare]
        bundles = [{name: value for name, value in each.amounts().items() if value} for each in needs]
        _request_resources(bundles, [dict(each.labels) for each in needs])

    def _planned(self) -> list[Wanted]:
        return [msgspec.structs.replace(each, needs=self._needs(each.needs)) for each in self._plan.workers]

    def _needs(self, needs: Needs) -> Needs:
        return msgspec.structs.replace(needs, cpus=0.0) if self.is_own else needs


def leaving() -> AbstractContextManager[None]:
    """For what is said to Ray on leaving, when the cluster or an actor may be gone: that is no problem any more."""
    import ray

    return suppress(ray.exceptions.RayError, ConnectionError, TimeoutError, RuntimeError)


def _request_resources(bundles: list[dict[str, float]], labels: list[Mapping[str, str]]) -> None:
    from ray.autoscaler.sdk import request_resources

    request_resources(bundles=bundles, bundle_label_selectors=labels if any(labels) else None)
