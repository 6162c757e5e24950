"""How tasks are attempted: one file per kind of workflow, and what they have in common.

A user's own workflow is an async function of a task and a `RolloutModel`; `register_workflow` makes it known
(docs/recipes/workflow.md).
"""

from ludus.workflows.agents.agent import AgentTask, register_agent, register_agent_program
from ludus.workflows.environments import EnvStep, TextEnvironment, register_environment
from ludus.workflows.protocol import Outcome, Workflow, register_workflow
from ludus.workflows.rollout_model import Chat, OutOfRoom, RolloutModel
from ludus.workflows.tools.tool import ToolError, register_tool

__all__ = [
    "AgentTask",
    "Chat",
    "EnvStep",
    "OutOfRoom",
    "Outcome",
    "RolloutModel",
    "TextEnvironment",
    "ToolError",
    "Workflow",
    "register_agent",
    "register_agent_program",
    "register_environment",
    "register_tool",
    "register_workflow",
]
