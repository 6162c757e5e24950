"""A budget for thoughts: thoughts that grow too long are closed with `</think>`, and the model goes on from there.

The reply is asked for in two parts of one session, so engines need to know nothing of thoughts: first as many tokens as
the budget has, or until `</think>`; then the answer. What is put between them is not sampled, and no learner trains on
it. Invariant: a reply that thinks no longer than the budget has the tokens that it would have without one.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import numpy as np

from ludus.inference.protocol import Completion, Request, Sampling
from ludus.lm.chat import ChatFormat

OPENS, CLOSES = "<think>", "</think>"
CLOSING = f"\n{CLOSES}\n\n"
"""What is put after thoughts that are too long."""
LOOK_BACK = 16
"""Tokens of a prompt's end in which the template may have opened thoughts."""

Sample = Callable[[Request], Awaitable[Completion]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingBudget:
    """Carries out one budget."""

    tokens: int
    chat: ChatFormat

    async def sample(self, request: Request, sample: Sample) -> Completion:
        """A reply in parts that `sample` writes."""
        sampling, ends = request.sampling, time.monotonic() + request.deadline_s
        if sampling.max_tokens <= self.tokens:
            return await sample(request)
        first = await sample(replace(request, sampling=self._of_thoughts(sampling), is_last=False))
        text = self._spelled(first.tokens.tolist())
        if first.finish == "stop" and not text.rstrip().endswith(CLOSES):
            return first
        closing = self.chat.tokens_of(CLOSING) if self._is_thinking(request, text) else []
        left = sampling.max_tokens - len(first.tokens) - len(closing)
        if left < 1:
            return replace(first, finish="length")
        between = [*first.tokens.tolist(), *closing]
        answer = await sample(
            replace(
                request,
                prompt=(*request.prompt, *between),
                sampling=replace(sampling, max_tokens=left),
                deadline_s=max(ends - time.monotonic(), 0.0),
            )
        )
        return _joined(first, closing, answer)

    def _of_thoughts(self, sampling: Sampling) -> Sampling:
        mark = self.chat.tokens_of(CLOSES)
        return replace(
            sampling,
            max_tokens=self.tokens,
            stop_tokens=sampling.stop_tokens | frozenset(mark if len(mark) == 1 else ()),
            stop=sampling.stop if len(mark) == 1 else (*sampling.stop, CLOSES),
        )

    def _is_thinking(self, request: Request, text: str) -> bool:
        """Whether thoughts were opened, by the template or by the model, and are still open."""
        before = self._spelled(list(request.prompt[-LOOK_BACK:])).rstrip()
        opened = before.endswith(OPENS) or text.lstrip().startswith(OPENS)
        return opened and CLOSES not in text

    def _spelled(self, tokens: list[int]) -> str:
        """The text of tokens with the model's marks, of which the marks of thoughts may be some."""
        return str(self.chat.tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False))


def _joined(first: Completion, closing: list[int], answer: Completion) -> Completion:
    nothing = np.zeros(len(closing), np.float32)
    parts = len(first.tokens), len(closing), len(answer.tokens)
    oldest = min(first.policy, answer.policy, key=lambda policy: policy.version)
    versions = [first.version_of_each(), np.full(len(closing), oldest.version), answer.version_of_each()]
    return replace(
        answer,
        policy=oldest,
        versions=np.concatenate(versions).astype(np.int32),
        tokens=np.concatenate([first.tokens, np.array(closing, np.int32), answer.tokens]),
        logps=np.concatenate([first.logps, nothing, answer.logps]),
        values=np.concatenate([first.values, nothing, answer.values]),
        sampled=np.repeat([True, False, True], parts),
    )
