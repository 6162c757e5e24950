"""Makes the workflow that a config asks for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ludus.config import WorkflowConfig
from ludus.config.sections.workflow import (
    AgentConfig,
    AttemptsConfig,
    CustomWorkflowConfig,
    MultiTurnConfig,
    SingleTurnConfig,
    ToolAgentConfig,
)
from ludus.errors import ConfigError
from ludus.lm.extraction import check_extraction
from ludus.workflows.agents.agent import AGENTS
from ludus.workflows.environments import find_environment
from ludus.workflows.multi_turn import MultiTurn
from ludus.workflows.prompting import Attempts, SingleTurn
from ludus.workflows.protocol import WORKFLOWS, CustomWorkflow, Workflow


def make_workflow(config: WorkflowConfig) -> Workflow:
    """Make the workflow of a run.

    Raises:
        ConfigError: it cannot be made.
    """
    with _named(config):
        match config:
            case SingleTurnConfig():
                return SingleTurn(config)
            case AttemptsConfig():
                return Attempts(config)
            case ToolAgentConfig():
                from ludus.workflows.tool_agent import ToolAgent

                return ToolAgent(config)
            case MultiTurnConfig():
                return MultiTurn(config)
            case AgentConfig():
                from ludus.workflows.agents.workflow import AgentProgram

                return AgentProgram(config)
            case CustomWorkflowConfig():
                return CustomWorkflow(config.name, WORKFLOWS.find(config.name), config.options)


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
                from ludus.workflows.tool_agent import check_tools

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
