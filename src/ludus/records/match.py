"""The result of one game between policies, as the league sees it."""

from __future__ import annotations

from dataclasses import dataclass

from ludus.records.ids import EpisodeId
from ludus.records.policy import PolicyRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Who sat where and what each seat got."""

    id: EpisodeId
    game: str
    seats: tuple[PolicyRef, ...]
    returns: tuple[float, ...]
