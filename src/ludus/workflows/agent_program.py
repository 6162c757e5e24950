"""`agent`: a program that speaks the OpenAI API attempts the task; the policy answers it, and all is recorded.

What the attempt is worth: what the program returns as its reward, what it told the endpoint (POST /v1/ludus/reward), or
what the run's rewards give for its response.
"""

from __future__ import annotations

from typing import Any

from ludus.config import AgentConfig
from ludus.records import Task
from ludus.workflows.agents.agent import AGENTS, Agent, AgentTask, Command
from ludus.workflows.agents.functions import FunctionAgent
from ludus.workflows.agents.programs import ProgramAgent
from ludus.workflows.interception.server import InterceptionServer
from ludus.workflows.rollout_model import RolloutModel


class AgentProgram:
    """Runs agents against the intercepting endpoint."""

    many_chats = True

    def __init__(self, config: AgentConfig) -> None:
        """
        Raises:
            ConfigError: there is no such agent.
        """
        found = AGENTS.find(config.name)
        self._agent: Agent = ProgramAgent(found) if isinstance(found, Command) else FunctionAgent(found)
        self._options = config.options
        self._server = InterceptionServer()

    async def run(self, task: Task, model: RolloutModel) -> Any:
        """Let the agent work; what it said is in the model's chats."""
        interception, url, token = self._server.open(model)
        given = AgentTask(
            base_url=url,
            api_key=token,
            model=str(model.policy.name),
            inputs=task.inputs,
            options=self._options,
            seed=model.seed,
        )
        try:
            returned = await self._agent.attempt(given)
        finally:
            self._server.end(token)
        return interception.outcome(returned)

    async def close(self) -> None:
        """Stop the endpoint."""
        await self._server.close()
