"""Games that the page asks for, against a person or between policies: processes of their own, bounded."""

from ludus.web.play.matches import Match, Matches
from ludus.web.play.tables import PlayTable, PlayTables

__all__ = ["Match", "Matches", "PlayTable", "PlayTables"]
