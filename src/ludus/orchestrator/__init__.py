"""Where the rooms run: fused in one process, split over several, or not at all (tabular).

Only this package and the loop know all rooms.
"""

from __future__ import annotations

from ludus.orchestrator.check_parts import check_parts
from ludus.orchestrator.progress import Progress, UpdateReport, crosses
from ludus.orchestrator.rooms import Rooms, open_rooms
from ludus.orchestrator.topology import TakesData, Topology

__all__ = [
    "Progress",
    "Rooms",
    "TakesData",
    "Topology",
    "UpdateReport",
    "check_parts",
    "crosses",
    "make_topology",
    "open_rooms",
]


def make_topology(rooms: Rooms) -> Topology:
    """The topology that the config asks for."""
    if rooms.config.mode == "evaluate":
        from ludus.orchestrator.evaluating import Evaluating

        return Evaluating(rooms)
    if rooms.config.topology == "tabular":
        from ludus.orchestrator.tabular import Tabular

        return Tabular(rooms)
    if rooms.config.topology == "fused":
        from ludus.orchestrator.fused.fused import Fused

        return Fused(rooms)
    from ludus.orchestrator.split import Split

    return Split(rooms)
