"""ludus trains policies by letting them play: against themselves, a league of past selves, or a set of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ludus.lazy import import_later

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ludus.config import Preset, RunConfig, load_config, parse_config, register_preset
    from ludus.experience import register_operator, register_transform
    from ludus.explore.players.fixed import register_player
    from ludus.explore.prompts import register_prompt
    from ludus.games import Game, GameSpec, Position, make_game, register_backend, register_game, register_text_game
    from ludus.inference import register_engine
    from ludus.league import register_opponents
    from ludus.league.solvers import register_meta_solver
    from ludus.policies import register_network
    from ludus.rewards import Attempt, Mark, register_reward
    from ludus.runs import SingleRun, StagedRun, make_run
    from ludus.tasks import register_curriculum, register_processor
    from ludus.train import register_advantage, register_loss, register_schedule
    from ludus.train.loaders import Loader, register_loader
    from ludus.workflows.agents.agent import register_agent, register_agent_program
    from ludus.workflows.environments import register_environment
    from ludus.workflows.protocol import register_workflow
    from ludus.workflows.tools.tool import register_tool

__all__ = [
    "Attempt",
    "Game",
    "GameSpec",
    "Loader",
    "Mark",
    "Position",
    "Preset",
    "RunConfig",
    "SingleRun",
    "StagedRun",
    "__version__",
    "load_config",
    "make_game",
    "make_run",
    "parse_config",
    "register_advantage",
    "register_agent",
    "register_agent_program",
    "register_backend",
    "register_curriculum",
    "register_engine",
    "register_environment",
    "register_game",
    "register_loader",
    "register_loss",
    "register_meta_solver",
    "register_network",
    "register_operator",
    "register_opponents",
    "register_player",
    "register_preset",
    "register_processor",
    "register_prompt",
    "register_reward",
    "register_schedule",
    "register_text_game",
    "register_tool",
    "register_transform",
    "register_workflow",
]

# `import ludus` must stay light.
__getattr__ = import_later(__name__)
