"""The output head: log-probability and entropy of sampled tokens, without a table of all logits.

Logits of many tokens over a large vocabulary are the largest thing a language model computes. They are made in pieces;
one small piece is kept for the gradient, more are made again. Invariant: at most `HEAD_BYTES` are held for them at
once, whatever the number of tokens; the gradient of the head is summed over the pieces in float32, because a sum over
hundreds of them in bfloat16 loses its last digits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

HEAD_BYTES = {"cpu": 64 << 20, "cuda": 1 << 30}
"""For logits and what is made of them, by kind of device."""
_TABLES = 4
"""Float32 tables that there are of a piece at once, at most."""


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
        pieces = _pieces(hidden, weight)
        kept: tuple[torch.Tensor, ...] = ()
        for rows, here in zip(pieces, _by_piece(place, pieces), strict=True):
            log_probs = _log_probs(hidden[rows], weight, temperature)
            probabilities = log_probs.exp()
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
        of_weight = torch.zeros_like(weight, dtype=torch.float32) if ctx.needs_input_grad[1] else None
        if of_logp is None:
            of_logp = entropy.new_zeros(len(token))
        per_row = torch.zeros_like(entropy).index_add_(0, place, of_logp)
        pieces = _pieces(hidden, weight)
        for rows, here in zip(pieces, _by_piece(place, pieces), strict=True):
            found = (kept[0], kept[1]) if kept else _with_exp(_log_probs(hidden[rows], weight, ctx.temperature))
            inner = None if of_entropy is None else (entropy[rows, None], of_entropy[rows, None])
            of_logits = _of_logits(found, per_row[rows, None], inner)
            del found
            of_logits.index_put_((place[here] - rows.start, token[here]), of_logp[here], accumulate=True)
            of_logits = of_logits.div_(ctx.temperature).to(hidden.dtype)
            torch.mm(of_logits, weight, out=of_hidden[rows])
            if of_weight is not None:
                _add_product(of_weight, of_logits, hidden[rows])
            del of_logits
        return of_hidden, of_weight, None, None, None


def _log_probs(hidden: torch.Tensor, weight: torch.Tensor, temperature: float) -> torch.Tensor:
    logits = torch.mm(hidden, weight.t()).float()
    return torch.log_softmax(logits if temperature == 1.0 else logits.div_(temperature), dim=-1)


def _with_exp(log_probs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return log_probs, log_probs.exp()


def _of_logits(
    found: tuple[torch.Tensor, torch.Tensor],
    per_row: torch.Tensor,
    entropy: tuple[torch.Tensor, torch.Tensor] | None,
) -> torch.Tensor:
    """The gradient of logits but for the sampled tokens' own, from log-probabilities and probabilities `[n, V]`;
    `entropy` and what is asked of it, `[n, 1]` each."""
    log_probs, probabilities = found
    if entropy is None:
        return probabilities * -per_row
    value, of_value = entropy
    return (log_probs + value).mul_(of_value).add_(per_row).mul_(probabilities).neg_()


def _add_product(total: torch.Tensor, of_logits: torch.Tensor, hidden: torch.Tensor) -> None:
    """Add `of_logits^T hidden` to a float32 total."""
    if of_logits.dtype == torch.float32:
        total.addmm_(of_logits.t(), hidden)
    elif of_logits.is_cuda:
        total.add_(torch.mm(of_logits.t(), hidden, out_dtype=torch.float32))
    else:
        total.addmm_(of_logits.float().t(), hidden.float())


def _pieces(hidden: torch.Tensor, weight: torch.Tensor) -> list[slice]:
    """Rows of each piece; all in one when that is small enough."""
    bound = HEAD_BYTES.get(hidden.device.type, HEAD_BYTES["cuda"])
    size, count = max(1, bound // (4 * _TABLES * len(weight))), len(hidden)
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def _by_piece(place: torch.Tensor, pieces: list[slice]) -> list[torch.Tensor]:
    """The tokens that the rows of each piece predict, in order; one look at the device for all of them."""
    order = torch.argsort(place, stable=True)
    stops = torch.tensor([rows.stop for rows in pieces], device=place.device)
    ends = torch.searchsorted(place[order], stops).tolist()
    return [order[start:end] for start, end in zip([0, *ends], ends, strict=False)]
