"""`reward_model`: a language model with a scalar head says what a response is worth.

Two kinds of folder: a sequence classifier with one output (transformers), and a published version of one of our own
policies with a critic, whose value after the response's last word counts. Both are safetensors and run no code.

Invariant: every response is computed alone, in one thread, so its reward does not depend on what else is waiting.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from ludus.config import LanguageModelConfig
from ludus.config.sections.rewards import ModelRewardConfig
from ludus.errors import ConfigError, RewardError, StorageError
from ludus.lm.chat import ChatFormat
from ludus.lm.language_models import DTYPES, MOST_CONTEXT, load_language_model, quiet_transformers
from ludus.lm.language_shape import LanguageModelShape
from ludus.lm.model_folder import find_model_folder
from ludus.lm.node_models import model_here
from ludus.lm.weights import check_version, read_critic, version_parameters
from ludus.policies.store import CARD, PolicyStore
from ludus.records import PolicyName, PolicyRef, PolicyVersion
from ludus.rewards.attempt import Attempt, Mark, check_value
from ludus.runtime import NodeFiles

NO_MODEL = (
    "a reward model is a sequence classifier (a folder, or a model of the hub), or a version trained with a critic, "
    "such as runs/x/policies/main/00000040"
)
NO_CRITIC = "{} has no critic, so it cannot say what a response is worth; train with ppo"


def load_scalar_model(config: ModelRewardConfig, files: NodeFiles | None = None) -> Classifier | CriticOfVersion:
    """Load a reward model; `files` bring it to this machine. Raises ConfigError if there is none, or no scalar head."""
    files = files or NodeFiles(None)
    config = config.model_copy(update={"path": files.model(config.path)})
    folder = Path(config.path).expanduser()
    return CriticOfVersion(config, folder, files) if (folder / CARD).is_file() else Classifier(config)


def models_of(config: ModelRewardConfig) -> list[str]:
    """What it takes to load a reward model, as the config and the version that it names call it."""
    folder = Path(config.path).expanduser()
    if not (folder / CARD).is_file():
        return [config.path]
    shape = _store(config, lambda store, ref: store.shape(ref), folder)
    return [config.path, *([shape.model.path] if isinstance(shape, LanguageModelShape) else [])]


def check_reward_model(config: ModelRewardConfig) -> None:
    """See to it that there is such a model and that it has a scalar head; no weights are read. Raises ConfigError."""
    folder = Path(config.path).expanduser()
    if (folder / CARD).is_file():
        shape = _store(config, lambda store, ref: store.shape(ref), folder)
        if not isinstance(shape, LanguageModelShape):
            raise ConfigError(f"{config.path} is no version of a language model")
        if not shape.critic:
            raise ConfigError(NO_CRITIC.format(config.path))
        return
    with quiet_transformers():
        settings = AutoConfig.from_pretrained(find_model_folder(config.path, NO_MODEL), trust_remote_code=False)
    _check_settings(config.path, settings)


class Classifier:
    """A sequence classifier with one output."""

    def __init__(self, config: ModelRewardConfig) -> None:
        folder, path = find_model_folder(config.path, NO_MODEL), config.path
        with quiet_transformers():
            settings = AutoConfig.from_pretrained(folder, trust_remote_code=False)
            _check_settings(path, settings)
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
            loaded: Any = AutoModelForSequenceClassification.from_pretrained(
                folder,
                dtype=DTYPES[config.dtype],
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
        model, report = loaded
        lacking = sorted(map(str, [*report["missing_keys"], *report["mismatched_keys"]]))
        if lacking:
            raise ConfigError(f"{path} lacks {len(lacking)} of a reward model's weights: {lacking[0]}")
        self._model: Any = model.eval().requires_grad_(False)
        most = getattr(settings.get_text_config(), "max_position_embeddings", None)
        self.context = min(config.context or MOST_CONTEXT, most or MOST_CONTEXT)

    def tokens(self, prompt: str, response: str) -> list[int]:
        """The conversation as the model's own template writes it, or the two texts with a space between."""
        if self._tokenizer.chat_template:
            messages = [{"role": "user", "content": prompt}, {"role": "assistant", "content": response}]
            text = str(self._tokenizer.apply_chat_template(messages, tokenize=False))
            return list(map(int, self._tokenizer.encode(text, add_special_tokens=False)))
        return list(map(int, self._tokenizer.encode(f"{prompt} {response}")))

    def score(self, tokens: list[int]) -> float:
        """The one output."""
        with torch.inference_mode():
            ids = torch.tensor([tokens], device=self._model.device)
            return float(self._model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0, 0].float())


class CriticOfVersion:
    """A published version of a policy, with its critic."""

    def __init__(self, config: ModelRewardConfig, folder: Path, files: NodeFiles) -> None:
        policy = _store(config, lambda store, ref: store.load(ref, LanguageModelShape), folder)
        shape = policy.shape
        base = load_language_model(model_here(_with_context(shape.model, config), files))
        check_version(policy.weights, base.model, shape.model.lora)
        critic = read_critic(policy.weights, width=base.width, device=base.model.device)
        if critic is None:
            raise ConfigError(NO_CRITIC.format(config.path))
        self.context = base.context
        self._critic = critic
        self._model = base.model
        own, plain = version_parameters(base.model, policy.weights, shape.model.lora), base.model.state_dict()
        self._parameters = {name: own[name] for name in own if own[name].data_ptr() != plain[name].data_ptr()}
        self._chat = ChatFormat(base.tokenizer)

    def tokens(self, prompt: str, response: str) -> list[int]:
        """The conversation up to where the response's turn would end: the last place that a critic learns about."""
        opening = self._chat.opening([{"role": "user", "content": prompt}])
        return [*opening, *self._chat.encode_reply(response)[:-1]]

    def score(self, tokens: list[int]) -> float:
        """The critic's value there."""
        with torch.inference_mode():
            ids = torch.tensor([tokens], device=self._model.device)
            arguments = {"input_ids": ids, "output_hidden_states": True}
            out = torch.func.functional_call(self._model, self._parameters, (), arguments)
            return float(self._critic.judge(out.hidden_states[-1][0, -1:])[0])


T = TypeVar("T")


def _store(config: ModelRewardConfig, read: Callable[[PolicyStore, PolicyRef], T], folder: Path) -> T:
    """Read something of the version in a folder. Raises ConfigError if it is none."""
    name, number = folder.parent.name, folder.name
    if not number.isdigit():
        raise ConfigError(f"{config.path}: expected a version's folder such as policies/main/00000040")
    ref = PolicyRef(name=PolicyName(name), version=PolicyVersion(int(number)))
    try:
        return read(PolicyStore(folder.parents[1]), ref)
    except StorageError as error:
        raise ConfigError(f"{config.path} is no version of a language model: {error}") from error


def _check_settings(path: str, settings: Any) -> None:
    said = (settings.architectures or [settings.model_type])[0]
    if not said.endswith("ForSequenceClassification"):
        raise ConfigError(f"{path} is a {said}, not a reward model (a sequence classifier with one output)")
    if settings.num_labels != 1:
        raise ConfigError(f"{path} tells {settings.num_labels} classes apart; a reward model has one output")


def _with_context(model: LanguageModelConfig, config: ModelRewardConfig) -> LanguageModelConfig:
    changes = {"dtype": config.dtype} | ({} if config.context is None else {"context": config.context})
    return model.model_copy(update=changes)


class ModelReward:
    """Asks a model."""

    def __init__(self, config: ModelRewardConfig, files: NodeFiles | None = None) -> None:
        self._config = config
        self._model = load_scalar_model(config, files)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reward-model")

    async def mark(self, attempt: Attempt) -> Mark:
        """The model's score."""
        score = await asyncio.get_running_loop().run_in_executor(self._thread, self._score, attempt)
        return Mark(value=score)

    async def close(self) -> None:
        """Let the thread go."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _score(self, attempt: Attempt) -> float:
        tokens = self._model.tokens(attempt.prompt, attempt.response)
        if len(tokens) > self._model.context:
            raise RewardError(
                f"prompt and response have {len(tokens)} tokens, and {self._config.path} takes {self._model.context}"
            )
        score = check_value(self._model.score(tokens))
        return 1 / (1 + math.exp(-max(min(score, 700.0), -700.0))) if self._config.squash else score
