"""What the tests of agents share: messages, a client, and an agent as people write them."""

from typing import Any

import openai

from ludus.workflows.agents.agent import AgentTask, register_agent

SYSTEM = {"role": "system", "content": "Be brief."}


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def client(task: AgentTask) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=task.base_url, api_key=task.api_key, max_retries=0)


def agent(name: str, **options: Any) -> dict[str, Any]:
    return {"kind": "agent", "name": name, "options": options}


async def solver(task: AgentTask) -> str:
    """Asks, asks for a check, and answers: an agent as people write them."""
    async with client(task) as openai_client:
        messages: list[Any] = [SYSTEM, user(task.inputs["prompt"])]
        for _ in range(task.options.get("turns", 3)):
            reply = await openai_client.chat.completions.create(model="gpt-5", messages=messages, temperature=0.2)
            said = reply.choices[0].message.content
            messages += [{"role": "assistant", "content": said}, user("Are you sure?")]
        assert said is not None
        return said


register_agent("solver", solver)
