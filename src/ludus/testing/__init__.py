"""Public conformance checks: run them on your own parts. Each raises `ConformanceError` naming the broken promise."""

from ludus.testing.conformance import ConformanceError
from ludus.testing.curriculum_conformance import check_curriculum
from ludus.testing.engine_conformance import check_engine
from ludus.testing.games import check_game
from ludus.testing.loaders import check_loader
from ludus.testing.losses import check_advantage, check_loss, check_preset, check_schedule
from ludus.testing.networks import check_network
from ludus.testing.operators import check_operator
from ludus.testing.reward_conformance import check_reward
from ludus.testing.text_conformance import check_text_game
from ludus.testing.transforms import check_transform
from ludus.testing.workflow_conformance import check_workflow

__all__ = [
    "ConformanceError",
    "check_advantage",
    "check_curriculum",
    "check_engine",
    "check_game",
    "check_loader",
    "check_loss",
    "check_network",
    "check_operator",
    "check_preset",
    "check_reward",
    "check_schedule",
    "check_text_game",
    "check_transform",
    "check_workflow",
]
