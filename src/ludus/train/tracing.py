"""Takes a few sequences of every update's batch as traces: what the trainer thought of them before its first step.

Invariant: nothing that is trained depends on it. Only on-policy rows are taken; which of them is decided by the
update's seed, so a repeated update gives the same traces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ludus.records import Experiences
from ludus.storage.traces import TracedSequence, encode_traces, packed
from ludus.train.sources import are_from

Floats = NDArray[np.float32]
Score = Callable[[Experiences], Floats]
"""Log-probability `[N]` of every element that the policy chose under the weights that the update begins with."""

SHOWN = ("action", "mask", "version", "logp", "value", "reward", "advantage", "target", "ref_logp", "teacher_logp")
_LABELS = ("task", "attempt", "game", "seat", "policy", "group", "final_reward", "shaped_reward", "truncated", "turn")


class Tracer:
    """Traces of the update under way. A learner calls `take` once for each, before its first optimizer step."""

    def __init__(self, count: int) -> None:
        self.count = count
        """Sequences of each update."""
        self._seed = 0
        self._taken: list[TracedSequence] = []

    def begin(self, seed: int) -> None:
        """An update begins."""
        self._seed, self._taken = seed, []

    def take(self, rows: Experiences, columns: Mapping[str, NDArray[Any]], score: Score) -> None:
        """Keep some of the rows.

        Args:
            rows: The batch with its labels as numbers (`sources.labelled`), from offset 0.
            columns: Further step columns `[N]`; `trainer_logp`, if it is known already.
            score: Asked only for the rows that are kept, and only where `trainer_logp` is not known.
        """
        whole = rows.replace(steps=columns)
        own = np.flatnonzero(are_from(whole, frozenset({"on_policy"})))
        if not len(own) or "episode" not in whole.sequences:
            return
        places = (self._seed + np.arange(min(self.count, len(own)))) % len(own)
        chosen = whole.take(own[np.sort(places)])
        logp = chosen.steps["trainer_logp"] if "trainer_logp" in chosen.steps else score(chosen)
        shown = {name: chosen.steps[name] for name in SHOWN if name in chosen.steps} | {"trainer_logp": logp}
        bounds = chosen.offsets.tolist()
        for row in range(len(chosen)):
            labels = {name: chosen.sequences[name][row] for name in _LABELS if name in chosen.sequences}
            self._taken.append(
                TracedSequence(
                    episode=str(chosen.sequences["episode"][row]),
                    columns=packed({name: column[bounds[row] : bounds[row + 1]] for name, column in shown.items()}),
                    **{
                        name: value.item() if isinstance(value, np.generic) else value for name, value in labels.items()
                    },
                )
            )

    def end(self) -> bytes:
        """What was taken, encoded; nothing where nothing was."""
        return encode_traces(self._taken) if self._taken else b""


@runtime_checkable
class TracingLearner(Protocol):
    """A learner that lets somebody see what it thinks of a batch."""

    def trace_by(self, tracer: Tracer) -> None:
        """Call the tracer in every update from now on."""
        ...


def make_tracer(learner: object, count: int) -> Tracer | None:
    """A tracer that this learner calls; None where nothing is to be recorded, or where it cannot say."""
    if not count or not isinstance(learner, TracingLearner):
        return None
    tracer = Tracer(count)
    learner.trace_by(tracer)
    return tracer
