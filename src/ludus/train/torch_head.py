"""Log-probabilities and entropies from the last hidden states, without a table of logits for all of them.

Logits of many tokens over a large vocabulary are the largest thing a language model computes. They are made in pieces;
a small table is kept for the gradient, a large one is made again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

KEPT_LOGITS = 1 << 22
"""Numbers in a table of logits that may be kept (16 MB); a larger one is made in pieces of this size."""


def token_scores(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    place: torch.Tensor,
    token: torch.Tensor,
    *,
    temperature: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probability `[M]` of each token, and entropy `[M]` of what it was chosen from, float32.

    Args:
        hidden: `[Q, d]`.
        weight: `[V, d]`, the output head.
        place: `[M]`: which hidden state predicts each token.
        token: `[M]`.
        temperature: logits are divided by it.
    """
    logp, entropy = _TokenScores.apply(hidden, weight, place, token, temperature)  # type: ignore[no-untyped-call]
    return logp, entropy.index_select(0, place)


class _TokenScores(Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        place: torch.Tensor,
        token: torch.Tensor,
        temperature: float,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        entropy = hidden.new_empty(len(hidden), dtype=torch.float32)
        logp = hidden.new_empty(len(token), dtype=torch.float32)
        pieces = _pieces(len(hidden), len(weight))
        kept: tuple[torch.Tensor, ...] = ()
        for rows in pieces:
            log_probs = _log_probs(hidden[rows], weight, temperature)
            probabilities = log_probs.exp()
            here = _within(place, rows)
            logp[here] = log_probs[place[here] - rows.start, token[here]]
            entropy[rows] = -torch.linalg.vecdot(probabilities, log_probs)
            kept = (log_probs, probabilities) if len(pieces) == 1 else ()
        ctx.save_for_backward(hidden, weight, place, token, entropy, *kept)
        ctx.temperature = temperature
        ctx.set_materialize_grads(False)
        return logp, entropy

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, of_logp: torch.Tensor | None, of_entropy: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, ...]:
        hidden, weight, place, token, entropy, *kept = ctx.saved_tensors
        of_hidden = torch.empty_like(hidden)
        of_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        if of_logp is None:
            of_logp = entropy.new_zeros(len(token))
        per_row = torch.zeros_like(entropy).index_add_(0, place, of_logp)
        for rows in _pieces(len(hidden), len(weight)):
            log_probs = kept[0] if kept else _log_probs(hidden[rows], weight, ctx.temperature)
            probabilities = kept[1] if kept else log_probs.exp()
            if of_entropy is None:
                of_logits = probabilities * -per_row[rows, None]
            else:
                inner = (log_probs + entropy[rows, None]).mul_(of_entropy[rows, None]).add_(per_row[rows, None])
                of_logits = inner.mul_(probabilities).neg_()
            here = _within(place, rows)
            of_logits.index_put_((place[here] - rows.start, token[here]), of_logp[here], accumulate=True)
            of_logits = of_logits.div_(ctx.temperature).to(hidden.dtype)
            torch.mm(of_logits, weight, out=of_hidden[rows])
            if of_weight is not None:
                of_weight.addmm_(of_logits.t(), hidden[rows])
        return of_hidden, of_weight, None, None, None


def _log_probs(hidden: torch.Tensor, weight: torch.Tensor, temperature: float) -> torch.Tensor:
    logits = torch.mm(hidden, weight.t()).float()
    return torch.log_softmax(logits if temperature == 1.0 else logits.div_(temperature), dim=-1)


def _pieces(count: int, vocabulary: int) -> list[slice]:
    """Rows of each piece; all in one when the table may be kept."""
    size = max(1, KEPT_LOGITS // vocabulary)
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def _within(place: torch.Tensor, rows: slice) -> torch.Tensor:
    found: torch.Tensor = ((place >= rows.start) & (place < rows.stop)).nonzero()[:, 0]
    return found
