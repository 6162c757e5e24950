"""Where the rooms run: fused in one process, split over several, or not at all (tabular).

Only this package and the loop know all rooms.
"""

from __future__ import annotations

from ludus.topologies.progress import Progress, UpdateReport, crosses
from ludus.topologies.rooms import Rooms, find_games, open_rooms
from ludus.topologies.topology import TakesData, Topology

__all__ = [
    "Progress",
    "Rooms",
    "TakesData",
    "Topology",
    "UpdateReport",
    "crosses",
    "find_games",
    "make_topology",
    "open_rooms",
]


def make_topology(rooms: Rooms) -> Topology:
    """The topology that the config asks for."""
    if rooms.config.mode == "evaluate":
        from ludus.topologies.evaluating import Evaluating

        return Evaluating(rooms)
    if rooms.config.topology == "tabular":
        from ludus.topologies.tabular import Tabular

        return Tabular(rooms)
    if rooms.config.topology == "fused":
        from ludus.topologies.fused import Fused

        return Fused(rooms)
    from ludus.topologies.split import Split

    return Split(rooms)
