"""What only some requests ask for: tokens drawn from a bent distribution (min-p, repetition penalty), and strings that
end a completion.

Invariant: where no request asks for any of it nothing is computed here, so the tokens and the bits of all others are
what they would be without this. Log-probabilities stay those of the model at the temperature.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ludus.inference.protocol import Request, Sampling
from ludus.lm.sampling import Draws

Draw = Callable[[Tensor, Draws], tuple[NDArray[np.int32], NDArray[np.float32]]]
Decode = Callable[[Sequence[int]], str]

TOKENS_PER_CHARACTER = 4
"""At most: a character is at most four bytes, and a token at least one."""
NEVER = 1e4
"""Below the others, at temperature 1: a logit with no chance."""
MARKS = 8
"""Tokens without text, such as marks, that may stand within a stop string."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopStrings:
    """The strings that end one completion."""

    strings: tuple[str, ...]
    decode: Decode

    @property
    def window(self) -> int:
        """Tokens among which the newest string must be, if it has just been completed."""
        return TOKENS_PER_CHARACTER * max(map(len, self.strings)) + MARKS

    def end(self, tokens: NDArray[np.int32]) -> bool:
        """Whether one of them is in the newest tokens of a completion."""
        text = self.decode(tokens[-self.window :].tolist())
        return any(string in text for string in self.strings)


class Extras:
    """Of the slots that have any."""

    def __init__(self, slots: int, vocabulary: int, decode: Decode) -> None:
        self._shape = (slots, vocabulary)
        self._decode = decode
        self._bent: dict[int, Sampling] = {}
        self._stops: dict[int, StopStrings] = {}
        self._seen = torch.zeros((0, vocabulary), dtype=torch.bool)
        """Tokens that are in a slot's prompt or completion; made when a request is first penalised."""

    def open(self, slot: int, request: Request) -> None:
        """A slot is a request's from now on."""
        sampling = request.sampling
        if sampling.stop:
            self._stops[slot] = StopStrings(strings=sampling.stop, decode=self._decode)
        if sampling.min_p > 0 or sampling.repetition_penalty != 1:
            self._bent[slot] = sampling
        if sampling.repetition_penalty != 1:
            if not len(self._seen):
                self._seen = torch.zeros(self._shape, dtype=torch.bool)
            self._seen[slot] = False
            self._seen[slot, torch.tensor(request.prompt)] = True

    def close(self, slot: int) -> None:
        """The slot is nobody's."""
        self._stops.pop(slot, None)
        self._bent.pop(slot, None)

    def draw(
        self, draw: Draw, logits: Tensor, draws: Draws, slots: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Tokens of these slots and their log-probabilities, from a row of logits each."""
        rows = [row for row, slot in enumerate(slots.tolist()) if slot in self._bent] if self._bent else []
        if not rows:
            return draw(logits, draws)
        bent = logits.clone()
        for row in rows:
            bent[row] = self._bend(logits[row], int(slots[row]))
        tokens, logps = draw(bent, draws)
        for row in rows:
            temperature = float(draws.temperatures[row]) or 1.0
            own = (logits[row].float() / temperature).log_softmax(-1)
            logps[row] = float(own[int(tokens[row])])
            if self._bent[int(slots[row])].repetition_penalty != 1:
                self._seen[int(slots[row]), int(tokens[row])] = True
        return tokens, logps

    def ended(self, slot: int, tokens: NDArray[np.int32]) -> bool:
        """Whether what a slot has written ends with one of its stop strings."""
        stops = self._stops.get(slot)
        return stops is not None and stops.end(tokens)

    @property
    def has_stops(self) -> bool:
        """Whether any completion ends at strings."""
        return bool(self._stops)

    def _bend(self, logits: Tensor, slot: int) -> Tensor:
        """As vLLM does: the penalty first, then min-p of what comes out of it at the temperature."""
        sampling, bent = self._bent[slot], logits.float()
        if sampling.repetition_penalty != 1:
            penalty = sampling.repetition_penalty
            seen = self._seen[slot].to(bent.device)
            bent = torch.where(seen, torch.where(bent > 0, bent / penalty, bent * penalty), bent)
        if sampling.min_p > 0 and sampling.temperature > 0:
            least = bent.max() + sampling.temperature * math.log(sampling.min_p)
            bent = torch.where(bent >= least, bent, least - NEVER * sampling.temperature)
        return bent.to(logits.dtype)
