import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from ludus.config import PromptConfig, SamplingConfig
from ludus.explore.players.fixed import TextPlayer, make_text_player
from ludus.explore.runners.language_runner import LanguageRunner
from ludus.explore.runners.text_rollouts import TextRollouts
from ludus.games.protocol import TextGame
from ludus.games.registry import make_text_game
from ludus.inference.policy_sampler import PolicySampler
from ludus.inference.protocol import Completion, EngineCounters, Request
from ludus.lm.chat import ChatFormat

Say = Callable[[str], str]


class ParrotEngine:
    """Says what a function of the prompt's text says. Log-probabilities count the tokens: -1, -2, ..."""

    is_repeatable = True

    def __init__(self, chat: ChatFormat, say: Say) -> None:
        self.counters = EngineCounters()
        self.requests: list[Request] = []
        self.ended: list[str] = []
        self._chat = chat
        self._say = say

    async def generate(self, request: Request) -> Completion:
        self.requests.append(request)
        tokens = np.array(self._chat.encode_reply(self._say(self._chat.decode(list(request.prompt)))), np.int32)
        is_cut = len(tokens) > request.sampling.max_tokens
        tokens = tokens[: request.sampling.max_tokens]
        counted = -np.arange(1, len(tokens) + 1, dtype=np.float32)
        return Completion(
            tokens=tokens,
            logps=counted,
            values=np.zeros(len(tokens), np.float32),
            policy=request.policy,
            finish="length" if is_cut else "stop",
        )

    def end_session(self, session: str) -> None:
        self.ended.append(session)

    async def close(self) -> None:
        pass


@pytest.fixture(scope="session")
def chat(tmp_path_factory: pytest.TempPathFactory) -> ChatFormat:
    from transformers import AutoTokenizer

    from ludus.lm.tiny_model import make_tiny_model

    folder: Path = make_tiny_model(tmp_path_factory.mktemp("model") / "tiny", layers=1, width=32)
    return ChatFormat(AutoTokenizer.from_pretrained(folder))


def fixed_player(name: str, game: TextGame) -> TextPlayer | None:
    return None if name == "main" else make_text_player(name, game)


@pytest.fixture
def make_runner(chat: ChatFormat) -> Iterator[Callable[..., tuple[LanguageRunner, ParrotEngine]]]:
    made: list[LanguageRunner] = []

    def make(say: Say, *, game: TextGame | None = None, **options: object) -> tuple[LanguageRunner, ParrotEngine]:
        engine = ParrotEngine(chat, say)
        prompt = PromptConfig(**options.pop("prompt", {}))  # type: ignore[arg-type]
        sampling = SamplingConfig(**options.pop("sampling", {}))  # type: ignore[arg-type]
        keys = {key: options.pop(key) for key in ("patience_s", "pulse") if key in options}
        sampler = PolicySampler(engine, chat, **keys)  # type: ignore[arg-type]
        slots = options.pop("slots", 8)
        rollouts = TextRollouts(
            run="test",
            games=(lambda key: game) if game else make_text_game,
            sampler=sampler,
            prompt=prompt,
            sampling=sampling,
            **{"players": fixed_player, **options},  # type: ignore[arg-type]
        )
        runner = LanguageRunner({}, default=rollouts, sampler=sampler, slots=slots, endpoints=options.get("endpoints"))  # type: ignore[arg-type]
        made.append(runner)
        return runner, engine

    yield make
    for runner in made:
        runner.close()
