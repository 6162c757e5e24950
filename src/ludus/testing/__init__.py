"""Public conformance checks: run them on your own parts. Each raises `ConformanceError` naming the broken promise."""

from ludus.testing.attempts import check_reward, check_workflow
from ludus.testing.conformance import ConformanceError
from ludus.testing.data_parts import check_curriculum, check_loader, check_operator, check_transform
from ludus.testing.engine_conformance import check_engine
from ludus.testing.games import check_game
from ludus.testing.learning_parts import check_advantage, check_loss, check_network, check_preset, check_schedule
from ludus.testing.text_games import check_text_game

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
