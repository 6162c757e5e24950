"""From a setup message to a runner: what an explorer process does first."""

from pathlib import Path

import pytest
from attempting import run

from ludus.config import LoraConfig, parse_config
from ludus.explore.messages import Setup
from ludus.explore.runners.language_runner import LanguageRunner
from ludus.explore.worker import build_runner
from ludus.lm.adapters import init_adapter
from ludus.lm.language_models import LanguageModel
from ludus.lm.language_shape import LanguageModelShape
from ludus.policies import PolicyStore
from ludus.records import PolicyName, PolicyRef, Seat
from ludus.runtime import NodeFiles, Pulse
from ludus.tasks import TasksetTasks, load_taskset

CONFIG = """
name: built
tasks: ["ludus/arithmetic?digits=1&count=20"]
workflow: {kind: custom, name: polite, max_tokens: 6, retries: 1}
rewards: [{kind: custom, name: short, weight: 2.0}, {kind: numeric}]
policy: {model: {path: MODEL, lora: {rank: 2}}}
explore: {group: 2, deadline_s: 30}
train: {steps: 100, algorithm: {preset: grpo}}
"""
PLUGIN = """
from ludus.rewards import register_reward
from ludus.workflows import register_workflow

async def polite(task, model):
    return await model.chat().say("Please: " + task.inputs["prompt"])

register_workflow("polite", polite)
register_reward("short", lambda attempt: 1.0 / attempt.tokens)
"""


@pytest.fixture
def setup(tmp_path: Path, tiny: LanguageModel) -> Setup:
    plugin = tmp_path / "polite.py"
    plugin.write_text(PLUGIN)
    config = parse_config(CONFIG.replace("MODEL", str(tiny.folder)), "built.yaml")
    assert config.policy.model is not None
    lora = LoraConfig(rank=2)
    shape = LanguageModelShape(model=config.policy.model, critic=False, games=("tasks:arithmetic",))
    weights = init_adapter(tiny.model, lora, seed=0)
    PolicyStore(tmp_path / "policies").publish(PolicyRef(name=PolicyName("main")), weights, shape, step=0)
    return Setup(
        run=config.name,
        config=config.model_dump_json(),
        shape=shape.to_json(),
        slots=4,
        plugins=[str(plugin)],
    )


def test_a_run_with_tasks_is_given_a_workflow_runner(setup: Setup, tmp_path: Path) -> None:
    runner = build_runner(setup, Pulse(), NodeFiles(tmp_path))
    assert isinstance(runner, LanguageRunner)
    config = parse_config(setup.config, "built.json")
    seat = Seat(policy=PolicyRef(name=PolicyName("main")), learns=True)
    tasks = TasksetTasks([load_taskset(taskset) for taskset in config.tasks], config.seed, config.explore.group)
    try:
        batch = run(runner, tasks.training(0, 6, lambda task, game: (seat,)))
    finally:
        runner.close()
    assert [episode.error for episode in batch.episodes] == [""] * 6
    for episode in batch.episodes:
        assert episode.move_texts == (f"Please: {episode.task.inputs['prompt']}",)
        assert episode.returns[0] == pytest.approx(2.0 * episode.rewards["short"] + episode.rewards["numeric"])
    assert len(batch.experiences) == 6
    assert sorted(set(batch.experiences.sequences["group"].tolist())) == ["g0", "g1", "g2"]
