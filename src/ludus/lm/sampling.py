"""Draw tokens: the next token of each row from its logits and a number that belongs to (seed, position) alone.

Invariant: there is no generator to advance. A row's token depends on its logits, its sampling and its number, so it
comes out the same whatever else is drawn with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ludus.records.uniforms import GOLDEN, MIX_A, MIX_B


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """How `n` rows are to be drawn."""

    uniforms: NDArray[np.float64]
    """`[n]` in [0, 1)."""
    temperatures: NDArray[np.float32]
    """`[n]`; 0 takes the likeliest."""
    top_p: NDArray[np.float32]
    top_k: NDArray[np.int32]


def token_uniforms(seeds: NDArray[np.uint64], positions: NDArray[np.int32]) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1) with 53 bits, `[n]`, one for each seed and position (SplitMix64)."""
    x = seeds + (positions.astype(np.uint64) + np.uint64(1)) * GOLDEN
    x = (x ^ (x >> np.uint64(30))) * MIX_A
    x = (x ^ (x >> np.uint64(27))) * MIX_B
    x = x ^ (x >> np.uint64(31))
    scaled: NDArray[np.float64] = (x >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return scaled


def sample_tokens(logits: Tensor, draws: Draws) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Tokens and their log-probabilities `[n]` from `[n, vocabulary]` logits."""
    temperatures = torch.from_numpy(draws.temperatures).to(logits.device)
    greedy = temperatures == 0
    logps = (logits.float() / torch.where(greedy, 1.0, temperatures)[:, None]).log_softmax(-1)
    chances = logps.double().exp_()
    cut = np.flatnonzero((draws.top_p < 1) | (draws.top_k > 0))
    if len(cut):
        chances[cut] = _cut_tails(chances[cut], draws.top_p[cut], draws.top_k[cut])
    cumulative = chances.cumsum(-1)
    aims = torch.from_numpy(draws.uniforms).to(logits.device)[:, None] * cumulative[:, -1:]
    # The first place where the sum exceeds the aim has a chance above 0, as the sum rises nowhere else.
    drawn = torch.searchsorted(cumulative, aims, right=True)[:, 0].clamp_(max=logits.shape[1] - 1)
    tokens = torch.where(greedy, logps.argmax(-1), drawn)
    chosen = logps.gather(1, tokens[:, None])[:, 0]
    return tokens.to(torch.int32).cpu().numpy(), chosen.cpu().numpy()


def _cut_tails(chances: Tensor, top_p: NDArray[np.float32], top_k: NDArray[np.int32]) -> Tensor:
    """Keep the `top_k` likeliest, then the fewest likeliest whose chances reach `top_p`; at least one."""
    ordered, places = chances.sort(dim=-1, descending=True, stable=True)
    ranks = torch.arange(chances.shape[1], device=chances.device)
    limits = torch.from_numpy(np.where(top_k > 0, top_k, chances.shape[1]).astype(np.int64)).to(chances.device)
    ordered = torch.where(ranks < limits[:, None], ordered, 0.0)
    before = ordered.cumsum(-1) - ordered
    enough = torch.from_numpy(top_p.astype(np.float64)).to(chances.device)[:, None] * ordered.sum(-1, keepdim=True)
    kept = torch.where((before < enough) | (ranks == 0), ordered, 0.0)
    return torch.zeros_like(chances).scatter_(1, places, kept)
