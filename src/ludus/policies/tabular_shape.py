"""What a tabular policy's tensors must fit: a game whose decisions are all written down.

A version holds the meta-strategy of a population as one policy (`seat_<k>/policy`, `[sequences]`: the probability of
each sequence's action where it is decided) and the population it was made from. Beside them, `information_sets.json`
says for each seat, in the order of the tensors, what it knows and which actions it has: sequence 0 is "no decision
yet", then come the actions of the first information set, of the second, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TENSORS = "policies.safetensors"
LISTING = "information_sets.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class TabularShape:
    """A game and the size of its tables."""

    game: str
    """Key of the game."""
    sequences: tuple[int, ...] = ()
    """Of each seat; empty as long as nobody has walked the game's tree."""
    listing: bytes = field(default=b"", compare=False, repr=False)
    """The content of `information_sets.json`; known where versions are made, not where they are loaded."""

    @property
    def games(self) -> tuple[str, ...]:
        """The one game."""
        return (self.game,)

    def to_json(self) -> dict[str, Any]:
        """JSON from which `from_json` restores the shape."""
        return {"tabular": {"game": self.game, "sequences": list(self.sequences)}, "games": [self.game]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TabularShape:
        """The inverse of `to_json`; other keys are passed over."""
        table = values["tabular"]
        return cls(game=str(table["game"]), sequences=tuple(int(size) for size in table["sequences"]))

    def tensor_files(self) -> tuple[str, ...]:
        """All tensors are in one file."""
        return (TENSORS,)

    def file_of(self, tensor: str) -> str:
        """All tensors are in one file."""
        return TENSORS

    def metadata(self) -> dict[str, str]:
        """Nothing besides what every file carries."""
        return {}

    def companions(self, tensors: Mapping[str, Any]) -> dict[str, bytes]:
        """What the rows of the tensors mean."""
        return {LISTING: self.listing}
