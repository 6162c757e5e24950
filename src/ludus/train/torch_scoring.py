"""Sequences in, what losses need out: a forward pass, a critic head, and `[B, W]` tensors around them.

Invariants: outside the targets every tensor is 0 and no gradient flows. Trainers share the parts of a minibatch; what
they add up is the same on each of them afterwards, so trainers that began alike stay alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ludus.lm.weights import VALUE_BIAS, VALUE_WEIGHT
from ludus.records import Experiences
from ludus.train.loss_inputs import LossInputs
from ludus.train.reducer import Reducer
from ludus.train.sources import partners
from ludus.train.token_rows import Ints, Targets, targets_of
from ludus.train.torch_forward import Forward, Scores
from ludus.train.torch_state import TrainedWeights

CONSTANTS = {
    "old_logp": "logp",
    "start_logp": "start_logp",
    "ref_logp": "ref_logp",
    "advantage": "advantage",
    "old_value": "value",
    "target": "target",
}
"""Inputs of losses that carry no gradient, and the step columns they come from, where there are such."""


class Scorer:
    """Forward passes at the temperatures at which tokens were sampled, on one device."""

    def __init__(
        self,
        forward: Forward,
        reducer: Reducer,
        *,
        temperature: float,
        device: torch.device,
        by_game: Mapping[str, float] | None = None,
    ) -> None:
        """`by_game` has the temperatures of games that are sampled at another than `temperature`."""
        self._forward, self._reducer = forward, reducer
        self._default, self._by_game, self._device = temperature, dict(by_game or {}), device

    def alone(self) -> Scorer:
        """The same without the other trainers, who need not know of it; with them, where they must take part."""
        if self._forward.is_collective:
            return self
        return Scorer(self._forward, Reducer(), temperature=self._default, device=self._device, by_game=self._by_game)

    def share(self, parts: Sequence[Ints]) -> list[Ints | None]:
        """The parts that fall to this trainer; None where it computes nothing, but others wait for it (`idle`)."""
        mine: list[Ints | None] = [*self._reducer.share(parts)]
        missing = -(-len(parts) // self._reducer.size) - len(mine) if self._forward.is_collective else 0
        return [*mine, *[None] * missing]

    def idle(self, weights: TrainedWeights | None, *, takes_gradient: bool = False) -> None:
        """Take part in a pass of the other trainers, with nothing."""
        anchor = self._forward.idle(weights)
        if takes_gradient:
            anchor.backward()  # type: ignore[no-untyped-call]

    def anchored(self, loss: torch.Tensor, inputs: LossInputs) -> torch.Tensor:
        """The loss; trainers that share weights need a gradient of every one of them, if only 0."""
        return loss + 0.0 * inputs.logp.sum() if self._forward.is_collective else loss

    def parts(self, rows: Experiences, tokens: int) -> list[Ints]:
        """Rows that are computed at once: no more than so many tokens (or one row), and sampled at one temperature."""
        temperatures = self._temperatures(rows)
        if len(np.unique(temperatures)) < 2:
            return self._forward.parts(rows, tokens)
        alike = [np.flatnonzero(temperatures == each) for each in np.unique(temperatures)]
        return [index[part] for index in alike for part in self._forward.parts(rows.take(index), tokens)]

    def _temperatures(self, rows: Experiences) -> NDArray[np.float64]:
        if not self._by_game:
            return np.full(len(rows), self._default)
        games = rows.sequences["game"].tolist()
        return np.array([self._by_game.get(game, self._default) for game in games], np.float64)

    def _score(self, rows: Experiences, targets: Targets, weights: TrainedWeights | None) -> Scores:
        temperature = float(self._temperatures(rows)[0]) if self._by_game else self._default
        return self._forward.score(rows, targets, weights, temperature=temperature)

    def inputs(self, rows: Experiences, weights: TrainedWeights) -> LossInputs:
        """What losses see of these rows. Offsets begin at 0."""
        targets = targets_of(rows)
        scores = self._score(rows, targets, weights)
        place = torch.from_numpy(targets.places).to(self._device)

        def spread(flat: torch.Tensor) -> torch.Tensor:
            padded = flat.new_zeros(targets.shape[0] * targets.shape[1])
            return padded.scatter(0, place, flat).view(targets.shape)

        value = _values(scores, weights)
        columns = {name: rows.steps[column] for name, column in CONSTANTS.items() if column in rows.steps}
        constants = {name: self._tensor(targets.padded(column)) for name, column in columns.items()}
        return LossInputs(
            mask=self._tensor(targets.mask),
            logp=spread(scores.logp),
            entropy=spread(scores.entropy),
            value=None if value is None else spread(value),
            **constants,
            **self._labels(rows),
        )

    @torch.no_grad()
    def evaluate(
        self, rows: Experiences, weights: TrainedWeights | None, tokens: int
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Log-probability and value `[N]` of every target, in parts of so many tokens; 0 elsewhere. Trainers share."""
        logp, value = (np.zeros(rows.step_count, np.float32) for _ in range(2))
        for part in self.share(self.parts(rows, tokens)):
            if part is None:
                self.idle(weights)
                continue
            piece = rows.take(part)
            targets = targets_of(piece)
            scores = self._score(piece, targets, weights)
            elements = _elements_in_whole(rows, piece, part, targets)
            logp[elements] = scores.logp.cpu().numpy()
            found = None if weights is None else _values(scores, weights)
            if found is not None:
                value[elements] = found.cpu().numpy()
        for column in (logp, value):  # each trainer has filled its own places
            self._reducer.add_up(torch.from_numpy(column))
        return logp, value

    def _labels(self, rows: Experiences) -> dict[str, torch.Tensor]:
        """A number per row, where not all are on-policy."""
        columns = rows.sequences
        labels = {name: columns[name] for name in ("source", "chosen") if name in columns}
        if "pair" in columns:
            labels["partner"] = partners(columns["pair"])
        return {name: self._tensor(column) for name, column in labels.items()}

    def _tensor(self, array: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(array).to(self._device)


def _values(scores: Scores, weights: TrainedWeights) -> torch.Tensor | None:
    if VALUE_WEIGHT not in weights:
        return None
    values = torch.addmv(weights[VALUE_BIAS], scores.hidden.float(), weights[VALUE_WEIGHT][0])
    return values.index_select(0, scores.place)


def _elements_in_whole(
    rows: Experiences, piece: Experiences, part: NDArray[np.int64], targets: Targets
) -> NDArray[np.int64]:
    """Where the targets of a piece stand in the columns of the rows that it was taken from."""
    shift = rows.offsets[:-1][part] - piece.offsets[:-1]
    moved: NDArray[np.int64] = targets.elements + np.repeat(shift, piece.lengths)[targets.elements]
    return moved
