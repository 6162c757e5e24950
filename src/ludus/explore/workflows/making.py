"""Makes the workflow that a config asks for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ludus.config.workflows import (
    AgentConfig,
    AttemptsConfig,
    CustomWorkflowConfig,
    MultiTurnConfig,
    SingleTurnConfig,
    ToolAgentConfig,
    WorkflowConfig,
)
from ludus.errors import ConfigError
from ludus.explore.extraction import check_extraction
from ludus.explore.workflows.agents.agent import AGENTS
from ludus.explore.workflows.attempts import Attempts
from ludus.explore.workflows.custom import CustomWorkflow
from ludus.explore.workflows.environments import find_environment
from ludus.explore.workflows.multi_turn import MultiTurn
from ludus.explore.workflows.protocol import Workflow
from ludus.explore.workflows.registry import WORKFLOWS
from ludus.explore.workflows.single_turn import SingleTurn


def make_workflow(config: WorkflowConfig) -> Workflow:
    """Make the workflow of a run.

    Raises:
        ConfigError: it cannot be made.
    """
    with _named(config):
        return _make(config)


def check_workflow_config(config: WorkflowConfig) -> None:
    """Check what a config alone cannot tell: what is named exists. Nothing of a user's is made or started.

    Raises:
        ConfigError: as `make_workflow` does.
    """
    with _named(config):
        match config:
            case CustomWorkflowConfig():
                WORKFLOWS.find(config.name)
            case ToolAgentConfig():
                from ludus.explore.workflows.tool_agent import check_tools

                check_tools(config)
            case MultiTurnConfig():
                check_extraction(config.action)
                find_environment(config.environment)
            case AgentConfig():
                AGENTS.find(config.name)


@contextmanager
def _named(config: WorkflowConfig) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise ConfigError(*(f"workflow ({config.kind}): {problem}" for problem in error.problems)) from error


def _make(config: WorkflowConfig) -> Workflow:
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
            return CustomWorkflow(config.name, WORKFLOWS.find(config.name), config.options)
