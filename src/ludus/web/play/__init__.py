"""Games between people in the browser and policies: each is a process of its own, bounded in number and in time."""

from ludus.web.play.tables import PlayTable, PlayTables

__all__ = ["PlayTable", "PlayTables"]
