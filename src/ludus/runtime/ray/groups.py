"""Workers that begin together or not at all: one placement group of Ray for each group of a run.

Invariant: no member of a group has a place while another has none. A group lives as long as the connection: members
that are started again find their places kept, and Ray finds others for those whose node was lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

from ludus.runtime.needs import Wanted


class Groups:
    """Of one run. For any thread."""

    def __init__(self, workers: Sequence[Wanted]) -> None:
        self._members: dict[str, list[Wanted]] = {}
        for worker in workers:
            if worker.needs.group and any(worker.needs.amounts().values()):
                self._members.setdefault(worker.needs.group, []).append(worker)
        self._made: dict[str, Any] = {}
        self._lock = Lock()

    def members(self, name: str, group: str) -> list[str]:
        """The names of a worker's group; nothing of one that is in none."""
        names = [member.name for member in self._members.get(group, ())]
        return names if name in names else []

    def place(self, name: str, group: str) -> Any:
        """How a member is to be scheduled. Its group is asked for with the first of them, and not waited for."""
        from ray.util.placement_group import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        members = self._members[group]
        with self._lock:
            if group not in self._made:
                labels = [dict(member.needs.labels) for member in members]
                self._made[group] = placement_group(
                    [{what: much for what, much in member.needs.amounts().items() if much} for member in members],
                    strategy="PACK",
                    bundle_label_selector=labels if any(labels) else None,
                )
        index = [member.name for member in members].index(name)
        return PlacementGroupSchedulingStrategy(self._made[group], placement_group_bundle_index=index)

    def release(self) -> None:
        """Give all places back."""
        from ray.util.placement_group import remove_placement_group

        with self._lock:
            for made in self._made.values():
                remove_placement_group(made)
            self._made.clear()
