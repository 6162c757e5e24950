"""Check that an engine keeps the promises of `ludus.inference.protocol`.

    async def test_my_engine() -> None:
        await check_engine(MyEngine(...), tokenizer, policies=[main_0, main_1], context=1024, references=models)

Covered: lengths, stop tokens, log-probabilities (against a plain forward of transformers, if there is one), greedy and
cut sampling, seeds, many requests at once over several policies, sessions, deadlines, refusals, counters, closing. Not
covered: speed, memory, and whether tokens are drawn with the right frequencies.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.errors import PolicyError, TimeoutExceeded
from ludus.inference.protocol import Completion, Engine, Request, Sampling
from ludus.records import PolicyName, PolicyRef, PolicyVersion
from ludus.testing.conformance import ConformanceError, require

CLOSE = 1e-4
"""How far a log-probability may be from that of a plain forward in float32."""
TEXTS = ("What is your move?", "x", "The board is empty. You play first, and three in a row win the game. Your move:")
LEAST_CONTEXT = 256
STRANGER = PolicyRef(name=PolicyName("nobody-has-this-name"), version=PolicyVersion(7))


async def check_engine(
    engine: Engine,
    tokenizer: Any,
    *,
    policies: Sequence[PolicyRef],
    context: int,
    references: Mapping[PolicyRef, Any] | None = None,
    within: float = CLOSE,
    closes: bool = True,
) -> None:
    """Raise `ConformanceError` naming the first promise that the engine breaks.

    Args:
        engine: fresh, or at least idle.
        tokenizer: the model's, for prompts.
        policies: versions that the engine has; with two or more they are asked at the same time.
        context: tokens that a prompt and its completion may have; at least 256.
        references: for each of them a transformers (or peft) model; None leaves out what needs one.
        within: how far log-probabilities may be from the reference's.
        closes: whether to close the engine at the end, and to check that.
    """
    require(context >= LEAST_CONTEXT, f"the checks need a context of {LEAST_CONTEXT} tokens, got {context}")
    checks = _Checks(
        engine=engine,
        prompts=[tuple(tokenizer.encode(text, add_special_tokens=False)) for text in TEXTS],
        policies=list(policies),
        context=context,
        references=references,
        within=within,
    )
    await checks.lengths()
    await checks.stop_tokens()
    await checks.greedy_and_cut_sampling()
    await checks.seeds()
    await checks.many_at_once()
    await checks.sessions()
    await checks.refusals()
    await checks.deadlines()
    if closes:
        await checks.closing()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checks:
    engine: Engine
    prompts: list[tuple[int, ...]]
    policies: list[PolicyRef]
    context: int
    references: Mapping[PolicyRef, Any] | None
    within: float

    async def lengths(self) -> None:
        """A completion has at least one token and at most as many as were asked for."""
        for max_tokens in (1, 2, 7):
            for prompt in self.prompts:
                completion = await self.ask(self.request(prompt, max_tokens=max_tokens))
                require(
                    len(completion.tokens) == max_tokens and completion.finish == "length",
                    f"a completion without stop tokens has max_tokens ({max_tokens}) tokens and finish 'length', "
                    f"got {len(completion.tokens)} and {completion.finish!r}",
                )

    async def stop_tokens(self) -> None:
        """A stop token ends the completion and is part of it."""
        whole = await self.ask(self.request(self.prompts[0], max_tokens=8, temperature=0.0))
        tokens = whole.tokens.tolist()
        for place in (0, 5):
            stop = frozenset({tokens[place]})
            cut = await self.ask(self.request(self.prompts[0], max_tokens=8, temperature=0.0, stop_tokens=stop))
            expected = tokens[: tokens.index(tokens[place]) + 1]
            require(
                cut.tokens.tolist() == expected and cut.finish == "stop",
                f"a completion ends with its stop token {tokens[place]}: expected {expected} and 'stop', "
                f"got {cut.tokens.tolist()} and {cut.finish!r}",
            )

    async def greedy_and_cut_sampling(self) -> None:
        """Temperature 0, top_k 1, a small top_p and a large min_p all take the likeliest token, with its whole
        log-probability; with a penalty, too, log-probabilities are the model's own."""
        for prompt in self.prompts:
            greedy = await self.ask(self.request(prompt, max_tokens=4, temperature=0.0))
            await self.ask(self.request(prompt, max_tokens=8, repetition_penalty=1.4))
            for cut in ({"top_k": 1}, {"top_p": 1e-6}, {"min_p": 0.999999}):
                same = await self.ask(self.request(prompt, max_tokens=4, **cut))
                require(
                    same.tokens.tolist() == greedy.tokens.tolist()
                    and bool(np.allclose(same.logps, greedy.logps, atol=self.within)),
                    f"{cut} takes the likeliest tokens and leaves their log-probabilities as they are",
                )

    async def seeds(self) -> None:
        """Other seeds give other tokens; the same seed the same, bit for bit, if the engine says so."""
        requests = [self.request(self.prompts[2], max_tokens=6, seed=seed) for seed in range(8)]
        alone = [await self.ask(request) for request in requests]
        require(len({one.tokens.tobytes() for one in alone}) > 1, "different seeds give different completions")
        if not self.engine.is_repeatable:
            return
        crowd = [self.request(prompt, max_tokens=9, seed=seed) for seed in range(5) for prompt in self.prompts]
        together = await asyncio.gather(*(self.ask(request) for request in [*crowd, *requests]))
        for one, other in zip(alone, together[len(crowd) :], strict=True):
            require(
                one.tokens.tobytes() == other.tokens.tobytes() and one.logps.tobytes() == other.logps.tobytes(),
                "an engine that is_repeatable gives the same bits for the same request, whatever else is in flight",
            )

    async def many_at_once(self) -> None:
        """Requests of all lengths and policies, all at the same time; counters count them."""
        before = (self.engine.counters.requests, self.engine.counters.completed, self.engine.counters.sampled_tokens)
        requests = [
            self.request(
                self.prompts[number % 3] * (1 + number % 2),
                policy=self.policies[number % len(self.policies)],
                max_tokens=1 + number % 11,
                temperature=(1.0, 0.7, 0.0)[number % 3],
                seed=number,
            )
            for number in range(48)
        ]
        completions = await asyncio.gather(*(self.ask(request) for request in requests))
        counters = self.engine.counters
        sampled = sum(len(completion.tokens) for completion in completions)
        counted = (counters.requests, counters.completed, counters.sampled_tokens)
        expected = (before[0] + 48, before[1] + 48, before[2] + sampled)
        require(counted == expected, f"counters count requests, completions and tokens: {counted} is not {expected}")

    async def sessions(self) -> None:
        """Turns of a session are as right as any request, also where a prompt does not extend the one before."""
        games = [self._conversation(f"check-{number}", number) for number in range(6)]
        await asyncio.gather(*games)
        self.engine.end_session("check-that-never-was")

    async def refusals(self) -> None:
        """What cannot be served is a `PolicyError`, and the engine goes on."""
        prompt = self.prompts[0]
        long = (prompt * (self.context // len(prompt) + 1))[: self.context - 2]
        await self.refused("an empty prompt", self.request((), max_tokens=1))
        await self.refused("a prompt that leaves no room", self.request(long, max_tokens=3))
        await self.refused("an unknown policy", self.request(prompt, policy=STRANGER, max_tokens=1))
        await self.ask(self.request(long, max_tokens=2))

    async def deadlines(self) -> None:
        """A deadline that passes is a `TimeoutExceeded`, and the engine goes on."""
        prompt = self.prompts[2]
        late = self.request(prompt, max_tokens=min(256, self.context - len(prompt)), deadline_s=0.001)
        try:
            await asyncio.wait_for(self.engine.generate(late), timeout=60)
        except TimeoutExceeded:
            await self.ask(self.request(prompt, max_tokens=3))
        else:
            raise ConformanceError("a request whose deadline passes raises TimeoutExceeded, but it was completed")

    async def closing(self) -> None:
        """Requests in flight fail when the engine is closed, and so do later ones."""
        request = self.request(self.prompts[0], max_tokens=min(256, self.context - len(self.prompts[0])))
        flying = asyncio.ensure_future(self.engine.generate(request))
        await asyncio.sleep(0)
        await self.engine.close()
        await self.failed("a request in flight when the engine is closed", flying)
        await self.failed("a request after the engine was closed", self.engine.generate(request))

    # What the checks are made of

    def request(
        self,
        prompt: tuple[int, ...],
        *,
        max_tokens: int,
        policy: PolicyRef | None = None,
        seed: int = 0,
        deadline_s: float = 120.0,
        session: str = "",
        **sampling: Any,
    ) -> Request:
        return Request(
            prompt=prompt,
            policy=policy or self.policies[0],
            sampling=Sampling(max_tokens=max_tokens, **sampling),
            seed=seed,
            deadline_s=deadline_s,
            session=session,
        )

    async def ask(self, request: Request) -> Completion:
        """A completion that is well formed and has the reference's log-probabilities."""
        completion = await self.engine.generate(request)
        count = len(completion.tokens)
        columns = {"logps": completion.logps, "values": completion.values}
        require(1 <= count <= request.sampling.max_tokens, f"a completion has 1 to max_tokens tokens, got {count}")
        require(completion.tokens.dtype == np.int32, f"tokens are int32, got {completion.tokens.dtype}")
        for name, column in columns.items():
            require(
                column.shape == (count,) and column.dtype == np.float32 and bool(np.isfinite(column).all()),
                f"{name} are float32, finite, and as many as tokens",
            )
        require(bool((completion.logps <= 0).all()), "log-probabilities are at most 0")
        require(completion.policy == request.policy, f"a completion of {request.policy} says {completion.policy}")
        if self.references is not None:
            self._compare(request, completion, self.references[request.policy])
        return completion

    def _compare(self, request: Request, completion: Completion, reference: Any) -> None:
        logps = _plain_logps(reference, request, completion)
        tokens = completion.tokens
        expected = logps[np.arange(len(tokens)), tokens]
        apart = float(np.abs(expected - completion.logps).max())
        require(
            apart <= self.within,
            f"log-probabilities are those of a plain forward: {request.policy} differs by {apart:.2g} "
            f"after {len(request.prompt)} tokens at temperature {request.sampling.temperature}",
        )
        if request.sampling.temperature == 0:
            short = float((logps.max(-1) - expected).max())
            require(short <= self.within, f"temperature 0 takes the likeliest token, but another is {short:.2g} above")

    async def _conversation(self, session: str, number: int) -> None:
        rng = random.Random(number)
        policy = self.policies[number % len(self.policies)]
        history = self.prompts[2]
        for turn in range(4):
            request = self.request(history, policy=policy, max_tokens=3 + number, seed=turn, session=session)
            completion = await self.ask(request)
            history = (*history, *completion.tokens.tolist(), *self.prompts[turn % 2])
            if turn == 2:
                history = history[: len(history) - rng.randrange(1, 20)]
        self.engine.end_session(session)

    async def refused(self, what: str, request: Request) -> None:
        await self.failed(what, self.engine.generate(request))

    async def failed(self, what: str, answer: Awaitable[Completion]) -> None:
        try:
            await asyncio.wait_for(answer, timeout=60)
        except PolicyError:
            return
        except Exception as error:
            raise ConformanceError(f"{what}: expected PolicyError, got {type(error).__name__}: {error}") from error
        raise ConformanceError(f"{what}: was answered, expected PolicyError")


def _plain_logps(reference: Any, request: Request, completion: Completion) -> NDArray[np.float32]:
    """Log-probabilities `[n, vocabulary]` where each token of the completion was drawn."""
    import torch

    whole = torch.tensor([[*request.prompt, *completion.tokens.tolist()]], device=reference.device)
    with torch.inference_mode():
        logits = reference(whole).logits[0, len(request.prompt) - 1 : -1].float()
        temperature = request.sampling.temperature or 1.0
        logps: NDArray[np.float32] = (logits / temperature).log_softmax(-1).cpu().numpy()
    return logps
