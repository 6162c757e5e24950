"""The checker is checked: a sound engine passes, and an engine that breaks one promise is caught by that promise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ludus.config import LanguageModelConfig
from ludus.errors import PolicyError
from ludus.inference.local.engine import LocalEngine
from ludus.inference.protocol import Completion, EngineCounters, Request
from ludus.lm.language_models import LanguageModel, load_language_model
from ludus.lm.tiny_model import make_tiny_model
from ludus.records import PolicyName, PolicyRef
from ludus.testing import ConformanceError, check_engine

MAIN = PolicyRef(name=PolicyName("main"))
Change = Callable[[Request, Completion], Completion]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    torch.set_num_threads(1)
    folder = make_tiny_model(tmp_path_factory.mktemp("models") / "tiny", layers=2, width=32, context=256)
    return load_language_model(LanguageModelConfig(path=str(folder)))


class Altered:
    """A sound engine but for what is changed in its completions or its requests."""

    def __init__(
        self,
        engine: LocalEngine,
        *,
        completion: Change = lambda request, completion: completion,
        request: Callable[[Request], Request] = lambda request: request,
    ) -> None:
        self._engine = engine
        self._completion = completion
        self._request = request
        self.is_repeatable = True

    @property
    def counters(self) -> EngineCounters:
        return self._engine.counters

    async def generate(self, request: Request) -> Completion:
        return self._completion(request, await self._engine.generate(self._request(request)))

    def end_session(self, session: str) -> None:
        self._engine.end_session(session)

    async def close(self) -> None:
        await self._engine.close()


def sound(model: LanguageModel) -> LocalEngine:
    engine = LocalEngine(model)
    engine.add_version(MAIN, {})
    return engine


def check(engine: Any, model: LanguageModel) -> None:
    references = {MAIN: model.model}
    asyncio.run(check_engine(engine, model.tokenizer, policies=[MAIN], context=256, references=references))


def sampled(request: Request, **changes: Any) -> Request:
    return replace(request, sampling=replace(request.sampling, **changes))


def test_a_sound_engine_passes(tiny: LanguageModel) -> None:
    check(Altered(sound(tiny)), tiny)


def test_a_sound_engine_passes_without_a_reference(tiny: LanguageModel) -> None:
    asyncio.run(check_engine(sound(tiny), tiny.tokenizer, policies=[MAIN], context=256))


BROKEN: dict[str, tuple[str, dict[str, Any]]] = {
    "one token too many": (
        "1 to max_tokens tokens",
        {"request": lambda r: sampled(r, max_tokens=r.sampling.max_tokens + 1)},
    ),
    "one token too few": (
        "has max_tokens",
        {"request": lambda r: sampled(r, max_tokens=max(1, r.sampling.max_tokens - 1))},
    ),
    "says stop without a stop token": ("finish 'length'", {"completion": lambda r, c: replace(c, finish="stop")}),
    "does not stop": ("ends with its stop token", {"request": lambda r: sampled(r, stop_tokens=frozenset())}),
    "logps of another temperature": (
        "those of a plain forward",
        {
            "completion": lambda r, c: replace(
                c, logps=(c.logps * (r.sampling.temperature or 1)).astype(np.float32) * np.float32(1.001)
            )
        },
    ),
    "logps as float64": ("float32", {"completion": lambda r, c: replace(c, logps=c.logps.astype(np.float64))}),
    "tokens as int64": ("int32", {"completion": lambda r, c: replace(c, tokens=c.tokens.astype(np.int64))}),
    "too few values": ("values are", {"completion": lambda r, c: replace(c, values=c.values[1:])}),
    "another policy's name": (
        "says other@0",
        {"completion": lambda r, c: replace(c, policy=PolicyRef(name=PolicyName("other")))},
    ),
    "ignores the seed": ("different seeds", {"request": lambda r: replace(r, seed=1)}),
    "ignores top_k": ("top_k", {"request": lambda r: sampled(r, top_k=0)}),
    "ignores top_p": ("top_p", {"request": lambda r: sampled(r, top_p=1.0)}),
    "is not greedy at temperature 0": (
        "ends with its stop token|likeliest",
        {"request": lambda r: sampled(r, temperature=r.sampling.temperature or 1.0)},
    ),
    "ignores the deadline": ("TimeoutExceeded", {"request": lambda r: replace(r, deadline_s=600.0)}),
    "cuts the prompt": ("plain forward", {"request": lambda r: replace(r, prompt=r.prompt[-40:])}),
}


@pytest.mark.parametrize("what", sorted(BROKEN))
def test_an_engine_that_breaks_a_promise_is_caught(what: str, tiny: LanguageModel) -> None:
    promise, changes = BROKEN[what]
    with pytest.raises(ConformanceError, match=promise):
        check(Altered(sound(tiny), **changes), tiny)


def test_an_engine_that_depends_on_its_company_is_caught(tiny: LanguageModel) -> None:
    class Crowded(Altered):
        flying = 0

        async def generate(self, request: Request) -> Completion:
            self.flying += 1
            try:
                completion = await super().generate(request)
            finally:
                self.flying -= 1
            nudge = np.float32(1e-6 if self.flying > 3 else 0)
            return replace(completion, logps=completion.logps - nudge)

    with pytest.raises(ConformanceError, match="whatever else is in flight"):
        check(Crowded(sound(tiny)), tiny)


def test_an_engine_that_accepts_what_it_must_refuse_is_caught(tiny: LanguageModel) -> None:
    class Obliging(Altered):
        async def generate(self, request: Request) -> Completion:
            return await super().generate(replace(request, prompt=request.prompt or (1,)))

    with pytest.raises(ConformanceError, match="an empty prompt: was answered"):
        check(Obliging(sound(tiny)), tiny)


def test_an_engine_that_raises_the_wrong_error_is_caught(tiny: LanguageModel) -> None:
    class Rude(Altered):
        async def generate(self, request: Request) -> Completion:
            try:
                return await super().generate(request)
            except PolicyError as error:
                raise ValueError(str(error)) from error

    with pytest.raises(ConformanceError, match="expected PolicyError, got ValueError"):
        check(Rude(sound(tiny)), tiny)


def test_an_engine_that_answers_after_it_was_closed_is_caught(tiny: LanguageModel) -> None:
    class Tireless(Altered):
        async def close(self) -> None:
            return None

    with pytest.raises(ConformanceError, match="in flight when the engine is closed: was answered"):
        check(Tireless(sound(tiny)), tiny)


def test_an_engine_that_does_not_count_is_caught(tiny: LanguageModel) -> None:
    class Uncounted(Altered):
        counters = EngineCounters()  # type: ignore[assignment]

    with pytest.raises(ConformanceError, match="counters count"):
        check(Uncounted(sound(tiny)), tiny)


def test_the_testing_room_loads_without_pytorch() -> None:
    import subprocess
    import sys

    code = "import sys, ludus.testing; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2]).returncode == 0
