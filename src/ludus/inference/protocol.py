"""What every engine is to a runner: token ids in, token ids and log-probabilities out.

Invariant: text is made into tokens once, by whoever wrote it; what an engine sampled is never made into tokens again.
A completion says which policy version wrote it. With the same prompt, policy and seed, an engine that
`is_repeatable` gives the same tokens and log-probabilities, bit for bit, whatever else it is working on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ludus.config.parts import ENGINES
from ludus.errors import ConfigError
from ludus.records import PolicyRef

Finish = Literal["stop", "length"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How tokens are drawn. Log-probabilities are those of the distribution at `temperature`, before `top_p`, `top_k`
    and `min_p` cut it and without `repetition_penalty`: what a learner recomputes."""

    max_tokens: int
    temperature: float = 1.0
    """0 takes the likeliest token, and its log-probability is that at temperature 1."""
    top_p: float = 1.0
    top_k: int = 0
    """0: no limit."""
    stop_tokens: frozenset[int] = frozenset()
    """Sampling one of these ends the completion; the token is part of it."""
    min_p: float = 0.0
    """Tokens less likely than the likeliest one times this are never drawn; the penalty counts for both."""
    repetition_penalty: float = 1.0
    """Divides positive logits of tokens that are in the prompt or the completion, and multiplies negative ones."""
    stop: tuple[str, ...] = ()
    """The token that completes one of these in the completion's text, without marks, ends it and is part of it."""

    @property
    def is_bent(self) -> bool:
        """Whether tokens are drawn from another distribution than that of the log-probabilities."""
        return self.top_p < 1 or self.top_k > 0 or self.min_p > 0 or self.repetition_penalty != 1

    def as_greedy(self) -> Sampling:
        """The same, but taking the likeliest token."""
        return replace(self, temperature=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One completion that is wanted."""

    prompt: tuple[int, ...]
    policy: PolicyRef
    sampling: Sampling
    seed: int
    deadline_s: float = 600.0
    session: str = ""
    """Requests of one session extend each other's prompts, as the turns of one seat in a game do."""
    is_last: bool = False
    """Whether the session asks no more after this, as far as the caller knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What an engine wrote."""

    tokens: NDArray[np.int32]
    """`[n]`, at least one, with the stop token if there was one."""
    logps: NDArray[np.float32]
    """`[n]`."""
    values: NDArray[np.float32]
    """`[n]`: the critic's estimate before each token; zeros where there is no critic."""
    policy: PolicyRef
    finish: Finish
    """`stop`: by a stop token or a stop string."""
    sampled: NDArray[np.bool_] | None = None
    """`[n]`: which tokens were sampled, where others were put between them; None: all."""
    versions: NDArray[np.int32] | None = None
    """`[n]`: the version that wrote each token, where weights changed in between; None: all are of `policy`, which is
    the oldest otherwise."""

    def version_of_each(self) -> NDArray[np.int32]:
        """`[n]`: the version that wrote each token."""
        own = np.full(len(self.tokens), self.policy.version, np.int32)
        return own if self.versions is None else self.versions


@dataclass(slots=True, kw_only=True)
class EngineCounters:
    """What an engine has done so far, for metrics."""

    requests: int = 0
    completed: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    """Of all prompts, reused or not."""
    reused_tokens: int = 0
    """Of prompts, not computed again because an earlier request had them."""
    sampled_tokens: int = 0
    retries: int = 0
    cost: float = 0.0
    """In the currency of the endpoint's price list; 0 where nothing is charged."""

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the request that is served inside, as completed or failed."""
        self.requests += 1
        try:
            yield
        except BaseException:
            self.failed += 1
            raise
        self.completed += 1


class Engine(Protocol):
    """Writes completions for any number of callers at once, in one asyncio event loop."""

    counters: EngineCounters
    is_repeatable: bool
    """Whether the same request gives the same bits, whatever else is in flight."""

    async def generate(self, request: Request) -> Completion:
        """Write one completion.

        Raises:
            PolicyError: the policy cannot be loaded, the prompt does not fit, or the endpoint refuses.
            TimeoutExceeded: the deadline passed.
        """
        ...

    def end_session(self, session: str) -> None:
        """The session asks no more: what is kept for it may go. Unknown sessions are passed over."""
        ...

    async def close(self) -> None:
        """Give everything back. Requests in flight fail."""
        ...


@runtime_checkable
class ShowsProgress(Protocol):
    """An engine that tells how far it is, so that a reply that has grown too long need not be written to its end."""

    def writing(self) -> Iterable[tuple[str, int]]:
        """The session of every request that is being written, and tokens so far."""
        ...


@runtime_checkable
class ShowsLoad(Protocol):
    """An engine that tells how busy it is."""

    def load(self) -> tuple[int, int]:
        """Requests that run, and requests that wait."""
        ...


@runtime_checkable
class TakesServers(Protocol):
    """An engine that is told which servers there are."""

    def take_servers(self, urls: Sequence[str]) -> None:
        """These there are from now on."""
        ...


EngineFactory = Callable[..., Engine]
"""Called as `factory(model=..., store=..., lora=..., **options)`."""


def register_engine(name: str, factory: EngineFactory) -> None:
    """Make an engine known under a name, for `explore.engine: {kind: custom, name: ...}`.

    Args:
        name: Small letters, digits and _.
        factory: Takes the base `model` (a `LanguageModel`), the `store` that has the published versions of the policy,
            `lora` (None where every parameter is trained) and the options of the config; gives an `Engine`.
    """
    if not callable(factory):
        raise ConfigError(f"engine {name!r}: expected a class or function, got {type(factory).__name__}")
    ENGINES.add(name, factory)


def check_request(request: Request, *, context: int) -> str:
    """Why an engine with this context length cannot serve the request; empty if it can."""
    sampling = request.sampling
    if not request.prompt:
        return "the prompt is empty"
    if sampling.max_tokens < 1:
        return f"max_tokens is {sampling.max_tokens}, and a completion has at least one token"
    if sampling.temperature < 0 or not 0 < sampling.top_p <= 1 or sampling.top_k < 0:
        return (
            f"temperature {sampling.temperature:g}, top_p {sampling.top_p:g} and top_k {sampling.top_k} are no sampling"
        )
    if not 0 <= sampling.min_p < 1 or sampling.repetition_penalty <= 0 or "" in sampling.stop:
        return f"min_p {sampling.min_p:g}, repetition_penalty {sampling.repetition_penalty:g} and stop are no sampling"
    need = len(request.prompt) + request.sampling.max_tokens
    if need > context:
        return (
            f"the prompt has {len(request.prompt)} tokens and up to {request.sampling.max_tokens} are to be sampled, "
            f"but the context holds {context}"
        )
    return ""
