"""Answers as mathematics: read by a small parser of our own and compared as numbers. Nothing is evaluated as code."""

from ludus.rewards.maths.comparing import are_equal

__all__ = ["are_equal"]
