"""Reward models: sequence classifiers and critics of our own versions say what transformers and our engine say."""

from __future__ import annotations

import asyncio
import json
import math
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

sys.path.insert(0, str(Path(__file__).parents[1] / "inference"))

from engine_models import LORA, main, random_adapter

from ludus.config import LanguageModelConfig
from ludus.config.sections.rewards import ModelRewardConfig
from ludus.errors import ConfigError, RewardError
from ludus.inference.local.engine import LocalEngine
from ludus.inference.protocol import Completion, Request, Sampling
from ludus.lm.language_models import LanguageModel, load_language_model
from ludus.lm.language_shape import LanguageModelShape
from ludus.lm.tiny_model import make_tiny_model
from ludus.policies.store import PolicyStore
from ludus.records import PolicyName, PolicyRef, Seat, Task, TaskId
from ludus.rewards.making import make_rewards
from ludus.rewards.reward_model import load_scalar_model

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    folder = make_tiny_model(tmp_path_factory.mktemp("models") / "tiny", layers=2, width=64, context=256)
    return load_language_model(LanguageModelConfig(path=str(folder)))


@pytest.fixture(scope="module")
def classifier(tiny: LanguageModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sequence classifier of one output, and the tiny model's tokenizer."""
    folder = tmp_path_factory.mktemp("models") / "classifier"
    settings = tiny.model.config.to_dict() | {"num_labels": 1}
    torch.manual_seed(0)
    model: Any = transformers.Qwen3ForSequenceClassification(transformers.Qwen3Config(**settings))
    model.save_pretrained(folder)
    tiny.tokenizer.save_pretrained(folder)
    return folder


def score(prompt: str, response: str, **config: Any) -> float:
    rewards = make_rewards([ModelRewardConfig.model_validate({"kind": "reward_model", **config})])
    seat = Seat(policy=PolicyRef(name=PolicyName("main")), learns=True)
    task = Task(id=TaskId(1), game="tasks:test", seed=1, seats=(seat,), inputs={"prompt": prompt})
    try:
        return asyncio.run(rewards.score(task, response, seed=1)).total
    finally:
        asyncio.run(rewards.close())


def test_a_missing_reward_model_is_not_answered_with_advice_to_make_a_random_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no model folder .*; a reward model is a sequence classifier") as refused:
        load_scalar_model(ModelRewardConfig(kind="reward_model", path=str(tmp_path / "gone")))
    assert "ludus model make" not in str(refused.value)


def test_a_classifier_says_what_transformers_says(classifier: Path) -> None:
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(classifier)
    model: Any = transformers.AutoModelForSequenceClassification.from_pretrained(classifier)
    messages = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "four"}]
    ids = tokenizer.apply_chat_template(messages, return_tensors="pt", return_dict=True)["input_ids"]
    expected = float(model.eval()(ids).logits[0, 0].detach())
    found = score("2 + 2?", "four", path=str(classifier))
    assert found == pytest.approx(expected, rel=1e-5)
    assert found != score("2 + 2?", "five", path=str(classifier))
    squashed = score("2 + 2?", "four", path=str(classifier), squash=True)
    assert squashed == pytest.approx(1 / (1 + math.exp(-expected)), rel=1e-5)


def test_a_response_that_does_not_fit_costs_the_episode(classifier: Path) -> None:
    with pytest.raises(
        RewardError, match=r"^reward reward_model: prompt and response have \d+ tokens, and .* takes 32$"
    ):
        score("2 + 2?", "x" * 100, path=str(classifier), context=32)


def test_the_critic_of_a_version_says_what_it_says_in_play(tiny: LanguageModel, tmp_path: Path) -> None:
    """Its value after the last word is what the engine gives as the value before the token that ends the turn."""
    weights = random_adapter(tiny.model, 1, critic=True)
    config = LanguageModelConfig(path=tiny.path, lora=LORA)
    shape = LanguageModelShape(model=config, critic=True, games=("tasks:test",))
    store = PolicyStore(tmp_path / "policies")
    store.publish(main(1), weights, shape, step=1)
    model = load_scalar_model(ModelRewardConfig(kind="reward_model", path=str(store.path(main(1)))))
    prompt = model.tokens("2 + 2?", "")

    async def play() -> Completion:
        engine = LocalEngine(tiny, lora=LORA)
        engine.add_version(main(1), weights)
        request = Request(prompt=tuple(prompt), policy=main(1), sampling=Sampling(max_tokens=12), seed=3)
        try:
            return await engine.generate(request)
        finally:
            await engine.close()

    completion = asyncio.run(play())
    for place in (0, 5, 11):
        said = [*prompt, *map(int, completion.tokens[:place])]
        assert model.score(said) == pytest.approx(float(completion.values[place]), abs=1e-4)
    assert score("2 + 2?", "four", path=str(store.path(main(1)))) == pytest.approx(
        model.score(model.tokens("2 + 2?", "four")), abs=1e-6
    )


def test_a_version_without_a_critic_is_refused(tiny: LanguageModel, tmp_path: Path) -> None:
    config = LanguageModelConfig(path=tiny.path, lora=LORA)
    store = PolicyStore(tmp_path / "policies")
    shape = LanguageModelShape(model=config, critic=False, games=("tasks:test",))
    store.publish(main(1), random_adapter(tiny.model, 1, critic=False), shape, step=1)
    with pytest.raises(ConfigError, match=r"^rewards\.reward_model: .* has no critic"):
        score("a", "b", path=str(store.path(main(1))))


def test_folders_that_are_no_reward_model_are_refused(tiny: LanguageModel, classifier: Path, tmp_path: Path) -> None:
    def refused(folder: Path | str, reason: str) -> None:
        with pytest.raises(ConfigError, match=reason):
            score("a", "b", path=str(folder))

    refused(tiny.folder, "is a Qwen3ForCausalLM, not a reward model")
    refused(tmp_path / "nothing", "no model folder")
    shutil.copytree(classifier, tmp_path / "many")
    settings = json.loads((tmp_path / "many" / "config.json").read_text())
    settings |= {"id2label": {"0": "a", "1": "b"}, "label2id": {"a": 0, "b": 1}}
    (tmp_path / "many" / "config.json").write_text(json.dumps(settings))
    refused(tmp_path / "many", "tells 2 classes apart")
    shutil.copytree(tiny.folder, tmp_path / "headless")
    settings = json.loads((tmp_path / "headless" / "config.json").read_text())
    settings |= {"architectures": ["Qwen3ForSequenceClassification"], "id2label": {"0": "a"}, "label2id": {"a": 0}}
    (tmp_path / "headless" / "config.json").write_text(json.dumps(settings))
    refused(tmp_path / "headless", "lacks 1 of a reward model's weights: score.weight")
    shutil.copytree(classifier, tmp_path / "pickled")
    (tmp_path / "pickled" / "model.safetensors").rename(tmp_path / "pickled" / "pytorch_model.bin")
    refused(tmp_path / "pickled", "as pickle")
