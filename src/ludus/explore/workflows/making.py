"""Makes the workflow that a config asks for."""

from __future__ import annotations

from ludus.config.workflows import (
    AgentConfig,
    AttemptsConfig,
    CustomWorkflowConfig,
    MultiTurnConfig,
    SingleTurnConfig,
    ToolAgentConfig,
    WorkflowConfig,
)
from ludus.explore.workflows.attempts import Attempts
from ludus.explore.workflows.custom import CustomWorkflow
from ludus.explore.workflows.multi_turn import MultiTurn
from ludus.explore.workflows.protocol import Workflow
from ludus.explore.workflows.single_turn import SingleTurn


def make_workflow(config: WorkflowConfig) -> Workflow:
    """Make the workflow of a run.

    Raises:
        ConfigError: it cannot be made.
    """
    match config:
        case SingleTurnConfig():
            return SingleTurn(config)
        case AttemptsConfig():
            return Attempts(config)
        case ToolAgentConfig():
            from ludus.explore.workflows.tool_agent import ToolAgent

            return ToolAgent(config)
        case MultiTurnConfig():
            return MultiTurn(config)
        case AgentConfig():
            from ludus.explore.workflows.agent_program import AgentProgram

            return AgentProgram(config)
        case CustomWorkflowConfig():
            return CustomWorkflow(config)
