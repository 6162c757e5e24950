"""An agent that knows only the `openai` client is trained by a run: explorer processes, endpoint, learner and all."""

from pathlib import Path

import pytest

from ludus import SingleRun, parse_config
from ludus.lm.tiny_model import make_tiny_model
from ludus.storage.arrow import episodes_from_table
from ludus.storage.segment_reader import SegmentReader

AGENT = """
from openai import AsyncOpenAI

from ludus.workflows import AgentTask, register_agent

clients = {}


async def digits(task: AgentTask) -> float:
    '''Worth the share of digits in what the model says.'''
    client = clients.setdefault(task.base_url, AsyncOpenAI(base_url=task.base_url, api_key="none", max_retries=0))
    messages = [{"role": "user", "content": "n"}]
    said = ""
    for _ in range(2):
        own = client.with_options(api_key=task.api_key)
        reply = await own.chat.completions.create(model="gpt-5", messages=messages, max_tokens=3)
        text = reply.choices[0].message.content
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "m"}]
        said += text
    return sum(sign.isdigit() for sign in said) / 6


register_agent("digits", digits)
"""
CONFIG = """
name: trained_agent
tasks: ["ludus/arithmetic?digits=1&count=50"]
rewards: [{kind: exact}]
workflow: {kind: agent, name: digits}
policy: {model: {path: MODEL, lora: null}}
explore: {group: 8, games_in_flight: 32}
train: {steps: 2600, batch_episodes: 32, minibatch: 32, algorithm: {preset: grpo}, optimizer: {learning_rate: 0.02}}
telemetry: {tensorboard: false, every_s: 0}
"""


@pytest.mark.slow
def test_an_agent_of_the_openai_client_learns(tmp_path: Path) -> None:
    model = make_tiny_model(tmp_path / "tiny", layers=1, width=32, heads=2, kv_heads=1)
    plugin = tmp_path / "agent.py"
    plugin.write_text(AGENT)
    config = parse_config(CONFIG.replace("MODEL", str(model)), "trained_agent.yaml")
    status = SingleRun(config, tmp_path / "run", plugins=[str(plugin)]).run_to_end()
    assert status.stage == "done", status.error
    episodes = [
        episode
        for _, table in SegmentReader(tmp_path / "run" / "episodes").scan()
        for episode in episodes_from_table(table)
        if episode.task.purpose == "train"
    ]
    assert not [episode.error for episode in episodes if episode.error]
    assert {len(episode.replies) for episode in episodes} == {2}
    rewards = [episode.rewards["workflow"] for episode in sorted(episodes, key=lambda episode: episode.task.id)]
    first, last = rewards[:64], rewards[-64:]
    assert sum(first) / 64 < 0.2
    assert sum(last) / 64 > sum(first) / 64 + 0.3
