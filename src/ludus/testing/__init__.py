"""Public conformance checks: run them on your own parts. Each raises `ConformanceError` naming the broken promise."""

from ludus.testing.conformance import ConformanceError
from ludus.testing.games import check_game
from ludus.testing.transforms import check_transform

__all__ = ["ConformanceError", "check_game", "check_transform"]
