import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).parent))

from attempting import MAIN, Make, ParrotEngine, Say
from pydantic import TypeAdapter

from ludus.config import LanguageModelConfig, PromptConfig, RewardConfigs, SamplingConfig, WorkflowConfig
from ludus.explore.runners.language_runner import LanguageRunner
from ludus.explore.runners.workflow_episode import WorkflowRollouts
from ludus.inference.local.engine import LocalEngine
from ludus.inference.policy_sampler import PolicySampler, make_sampling
from ludus.lm.chat import ChatFormat
from ludus.lm.language_models import LanguageModel, load_language_model
from ludus.lm.tiny_model import make_tiny_model
from ludus.plugins import Registry
from ludus.rewards.making import make_rewards
from ludus.workflows.making import make_workflow

EXACT = ({"kind": "exact", "ignore_case": True},)
CONTEXT = 512


@pytest.fixture(autouse=True)
def own_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten after it."""
    for registry in Registry.every:
        monkeypatch.setattr(registry, "added", dict(registry.added))


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    folder = make_tiny_model(tmp_path_factory.mktemp("model") / "tiny", layers=1, width=32, context=CONTEXT)
    return load_language_model(LanguageModelConfig(path=str(folder)), threads=1)


@pytest.fixture(scope="session")
def chat(tiny: LanguageModel) -> ChatFormat:
    return ChatFormat(tiny.tokenizer)


@pytest.fixture
def make_runner(chat: ChatFormat, tiny: LanguageModel) -> Iterator[Make]:
    """Runners of a workflow, over a parrot that says something or over the tiny model."""
    made: list[LanguageRunner] = []

    def make(
        say: Say | None,
        workflow: Any = "single_turn",
        *,
        rewards: Any = EXACT,
        prompt: Any = None,
        sampling: Any = None,
        context: int = CONTEXT,
        **options: Any,
    ) -> tuple[LanguageRunner, ParrotEngine]:
        engine: Any = ParrotEngine(chat, say) if say is not None else LocalEngine(tiny)
        if say is None:
            engine.add_version(MAIN, {})
        config = TypeAdapter(WorkflowConfig).validate_python(workflow)
        scoring = TypeAdapter(RewardConfigs).validate_python(rewards)
        keys = {key: options.pop(key) for key in ("patience_s", "pulse") if key in options}
        sampler = PolicySampler(engine, chat, context=context, **keys)
        slots, endpoints = options.pop("slots", 8), options.pop("endpoints", None)
        drawn = SamplingConfig(**(sampling or {}))
        rollouts = WorkflowRollouts(
            run="test",
            workflow=make_workflow(config),
            sampler=sampler,
            sampling=make_sampling(drawn, chat.stop_tokens, max_tokens=config.max_tokens),
            rewards=make_rewards(scoring) if scoring else None,
            by_turn=PromptConfig(**(prompt or {})).rows == "turn",
            **{"retries": config.retries, **options},
        )
        runner = LanguageRunner({}, default=rollouts, sampler=sampler, slots=slots, endpoints=endpoints)
        made.append(runner)
        return runner, engine

    yield make
    for runner in made:
        runner.close()
