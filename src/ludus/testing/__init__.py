"""Public conformance checks: run them on your own parts. Each raises `ConformanceError` naming the broken promise."""

from ludus.testing.conformance import ConformanceError
from ludus.testing.engine_conformance import check_engine
from ludus.testing.games import check_game
from ludus.testing.text_conformance import check_text_game
from ludus.testing.transforms import check_transform

__all__ = ["ConformanceError", "check_engine", "check_game", "check_text_game", "check_transform"]
