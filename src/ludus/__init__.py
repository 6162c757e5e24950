"""ludus trains policies by letting them play: against themselves, a league of past selves, or a set of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    from ludus.workflows.registry import register_workflow
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

# `import ludus` must stay light: each name is looked up in its room when first used.
_HOMES = {
    "Attempt": "ludus.rewards",
    "Game": "ludus.games",
    "GameSpec": "ludus.games",
    "Loader": "ludus.train.loaders",
    "Mark": "ludus.rewards",
    "Position": "ludus.games",
    "Preset": "ludus.config",
    "RunConfig": "ludus.config",
    "SingleRun": "ludus.runs",
    "StagedRun": "ludus.runs",
    "load_config": "ludus.config",
    "make_game": "ludus.games",
    "make_run": "ludus.runs",
    "parse_config": "ludus.config",
    "register_advantage": "ludus.train",
    "register_agent": "ludus.workflows.agents.agent",
    "register_agent_program": "ludus.workflows.agents.agent",
    "register_backend": "ludus.games",
    "register_curriculum": "ludus.tasks",
    "register_engine": "ludus.inference",
    "register_environment": "ludus.workflows.environments",
    "register_game": "ludus.games",
    "register_loader": "ludus.train.loaders",
    "register_loss": "ludus.train",
    "register_meta_solver": "ludus.league.solvers",
    "register_network": "ludus.policies",
    "register_operator": "ludus.experience",
    "register_opponents": "ludus.league",
    "register_player": "ludus.explore.players.fixed",
    "register_preset": "ludus.config",
    "register_processor": "ludus.tasks",
    "register_prompt": "ludus.explore.prompts",
    "register_reward": "ludus.rewards",
    "register_schedule": "ludus.train",
    "register_text_game": "ludus.games",
    "register_tool": "ludus.workflows.tools.tool",
    "register_transform": "ludus.experience",
    "register_workflow": "ludus.workflows.registry",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ludus' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
