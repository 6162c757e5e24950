"""A population as a person reads it: who is played how often, what pairs come to, and how exploitability fell.

Read from the newest checkpoint that is whole, of a finished run or beside a live one; nothing is moved or written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.errors import CorruptRecord, StorageError
from ludus.storage.checkpoints import Checkpoint, CheckpointStore
from ludus.storage.run_directory import RunDirectory

PART = "population"
"""What the tensors of a population are called in a checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationStanding:
    """Two populations at one moment. Policies are named by the generation in which they joined."""

    joined: tuple[NDArray[np.int64], NDArray[np.int64]]
    """Of each seat, `[policies]`."""
    weights: tuple[NDArray[np.float64], NDArray[np.float64]]
    """The meta-strategy of each seat, `[policies]`."""
    payoffs: NDArray[np.float64]
    """`[policies of seat 0, policies of seat 1]`: what seat 0 gets, exactly."""
    curve: NDArray[np.float64]
    """NashConv of every generation, from 0."""

    @property
    def generation(self) -> int:
        """Generations done."""
        return len(self.curve) - 1

    @property
    def value(self) -> float:
        """What seat 0 can expect when both play their meta-strategies."""
        return float(self.weights[0] @ self.payoffs @ self.weights[1])

    def most_played(self, seat: int, count: int) -> list[int]:
        """Places of the policies with the largest weights, largest first; of those with none, nobody."""
        weights = self.weights[seat]
        order = np.argsort(-weights, kind="stable")[:count].tolist()
        return [place for place in order if weights[place] > 0]

    def name(self, seat: int, place: int) -> str:
        """`g12` for the policy that joined in generation 12."""
        return f"g{self.joined[seat][place]}"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        seats = [
            {"joined": joined.tolist(), "weights": weights.tolist()}
            for joined, weights in zip(self.joined, self.weights, strict=True)
        ]
        return {
            "generation": self.generation,
            "nash_conv": self.curve.tolist(),
            "value": self.value,
            "seats": seats,
            "payoffs": self.payoffs.tolist(),
        }


def population_of_run(run: RunDirectory) -> PopulationStanding:
    """The population that a run last saved.

    Raises:
        StorageError: it has saved none that can be read.
    """
    tensors = _newest(CheckpointStore(run.checkpoints, keep=2)).tensors(PART)
    return PopulationStanding(
        joined=(tensors["seat_0/joined"], tensors["seat_1/joined"]),
        weights=(tensors["seat_0/meta_strategy"], tensors["seat_1/meta_strategy"]),
        payoffs=tensors["payoffs"],
        curve=tensors["nash_conv"],
    )


def _newest(store: CheckpointStore) -> Checkpoint:
    for update in reversed(store.list()):
        try:
            return store.load(update)
        except CorruptRecord:
            continue  # damaged, or removed this moment by the run that is alive
    raise StorageError(f"{store.directory} has no checkpoint of a population yet")
