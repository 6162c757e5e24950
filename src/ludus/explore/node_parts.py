"""What has to be installed where games are played and policies trained: asked of each node before a run begins there.

Invariant: nothing is imported that a node may lack. What is not found here is found by the first worker that lacks it.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from ludus.errors import ConfigError
from ludus.explore.players.fixed import UCI
from ludus.extras import NETWORKS, missing_packages
from ludus.games.registry import PACKAGES


def node_problem(parts: Sequence[str]) -> str:
    """What is lacking here for `policy.network`, `game <key>` or `player <name>`, in words; nothing if nothing is."""
    return next(filter(None, map(_problem, parts)), "")


def _problem(part: str) -> str:
    kind, _, name = part.partition(" ")
    if kind == "policy.network":
        return missing_packages(kind, *NETWORKS)
    if kind == "game":
        back_end, _, _ = name.partition(":")
        return missing_packages(part, PACKAGES[back_end]) if back_end in PACKAGES else ""
    if name == "solver":
        return missing_packages(part, "bitbully")
    return _engine_problem(name) if name.startswith(UCI) else ""


def _engine_problem(name: str) -> str:
    try:
        # The room of chess is above this one; it is loaded with the first engine.
        import_module("ludus.chess.engines.naming").parse_engine(name)
    except ConfigError as error:
        return str(error)
    return ""
