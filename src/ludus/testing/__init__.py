"""Public conformance checks: run them on your own parts. Each raises `ConformanceError` naming the broken promise."""

from ludus.testing.conformance import ConformanceError
from ludus.testing.curriculum_conformance import check_curriculum
from ludus.testing.engine_conformance import check_engine
from ludus.testing.games import check_game
from ludus.testing.operators import check_operator
from ludus.testing.reward_conformance import check_reward
from ludus.testing.text_conformance import check_text_game
from ludus.testing.transforms import check_transform
from ludus.testing.workflow_conformance import check_workflow

__all__ = [
    "ConformanceError",
    "check_curriculum",
    "check_engine",
    "check_game",
    "check_operator",
    "check_reward",
    "check_text_game",
    "check_transform",
    "check_workflow",
]
