"""Whether a vLLM server has the weights that it was given: it scores the probe that the trainer has scored.

Invariant: a version whose probe a server does not bear out is never asked for; the run stops with one sentence.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ludus.errors import PolicyError, WrongWeights
from ludus.inference.endpoint import Endpoint
from ludus.inference.vllm.wire import prompt_scoring_body, read_scores
from ludus.lm.probe import Probe, read_probe
from ludus.records import PolicyRef

SCORE_S = 120.0
"""Limit for scoring one probe."""


class Comparison:
    """Compares one server with the trainer. `endpoint` is its OpenAI API."""

    def __init__(self, endpoint: Endpoint, *, most: float) -> None:
        """`most`: nats for each token, on average, that server and trainer may be apart."""
        self._endpoint, self._most = endpoint, most
        self.mismatch = 0.0
        """As of the newest probe."""

    async def check(self, ref: PolicyRef, folder: Path, *, model: str) -> None:
        """See that a server has a version under the name `model`; without a probe nothing is asked.

        Raises:
            WrongWeights: it has not.
        """
        probe = read_probe(folder)
        if probe is None:
            return
        self.mismatch = probe.distance(await self.scores(probe, model=model))
        if not self.mismatch <= self._most:
            raise WrongWeights(
                f"{self._endpoint.url} does not have the weights of {ref} that it was given: on the probe it is "
                f"{self.mismatch:.3g} nats a token from the trainer, and explore.engine.most_mismatch is {self._most:g}"
                "; does it serve another base model, or compute in another type?"
            )

    async def scores(self, probe: Probe, *, model: str) -> NDArray[np.float32]:
        """What the server thinks of a probe's tokens but the first."""
        body = prompt_scoring_body(probe.tokens, model)
        answer = await self._endpoint.post("/completions", body, deadline_s=SCORE_S)
        try:
            return read_scores(answer, probe.tokens[1:])
        except PolicyError as error:
            raise WrongWeights(f"{self._endpoint.url} cannot score a probe: {error}") from error
