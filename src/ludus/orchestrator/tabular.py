"""A population that is computed: no explorers, no trainer, no games. One update is one generation of exact PSRO.

Durable by recomputation: a checkpoint holds what every policy plays, the payoff table and the meta-strategy, and
everything after it is a function of those. The tree of the game is walked anew at every start.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ludus.config import PopulationConfig
from ludus.errors import ConfigError
from ludus.games.sequence_form import SequenceForm
from ludus.games.sequence_form_building import build_sequence_form
from ludus.league.exact import ExactPsro, reason_to_stop
from ludus.orchestrator.progress import UpdateReport
from ludus.orchestrator.rooms import Rooms
from ludus.policies import TabularShape
from ludus.records import PolicyRef, Task
from ludus.reports.exact_population import PART
from ludus.storage.checkpoints import Checkpoint
from ludus.storage.tensors import save_tensors


class Tabular:
    """The topology of populations with exact oracles."""

    def __init__(self, rooms: Rooms) -> None:
        if rooms.config.population is None:
            raise ConfigError("topology: tabular computes a population, and population is null; write population: {}")
        self._rooms = rooms
        self._config: PopulationConfig = rooms.config.population
        self.publish_interval: int | None = rooms.config.league.snapshot_every
        self._psro: ExactPsro | None = None
        self._cpu_s = 0.0
        self._reason = ""
        rooms.telemetry.meters.keep("train", "policies", "storage")

    @property
    def is_exhausted(self) -> bool:
        """Whether a stopper has spoken."""
        return bool(self._reason)

    def begin(self, saved: Checkpoint | None) -> None:
        """Walk the game's tree, and make the first population or load the saved one."""
        (spec,) = self._rooms.specs.values()
        form = build_sequence_form(spec.tree, most_histories=self._config.max_histories, report=self._tell_histories)
        self._tell_histories(form.histories)
        self._rooms.shape = shape_of(form)
        started = time.process_time()
        self._psro = ExactPsro(
            form,
            meta_solver=self._config.meta_solver,
            meta_options=self._config.meta_options,
            ties=self._config.ties,
        )
        if saved is not None:
            self._psro.load(saved.tensors(PART))
            self._cpu_s = float(saved.state["cpu_s"])
        else:
            self._cpu_s = time.process_time() - started
        self._rooms.telemetry.metrics(self._psro.generation, self._metrics())
        self._look_at_stoppers()

    def advance(self) -> UpdateReport:
        """One generation."""
        started = time.process_time()
        with self._rooms.telemetry.room("psro"):
            self._current.advance()
        self._cpu_s += time.process_time() - started
        self._rooms.telemetry.meters.add("train", 1)
        self._look_at_stoppers()
        return UpdateReport(steps=1, episodes=0, metrics=self._metrics())

    def tend(self, timeout_s: float) -> None:
        """There is nobody to look after: let the time pass."""
        time.sleep(timeout_s)

    def save(self, staging: Path) -> dict[str, Any]:
        """Write the population."""
        save_tensors(staging / f"{PART}.safetensors", self._current.tensors())
        return {"cpu_s": self._cpu_s}

    def weights(self) -> Mapping[str, NDArray[Any]]:
        """The meta-strategy as a policy of each seat, with the population that it is made of."""
        policies = {f"seat_{seat}/policy": policy for seat, policy in enumerate(self._current.policies())}
        return {**policies, **self._current.tensors()}

    def use_version(self, ref: PolicyRef) -> None:
        """Nobody plays."""

    def refresh_opponents(self) -> None:
        """Nobody plays."""

    def submit_evaluation(self, tasks: Sequence[Task]) -> None:
        """There are no tasks: the config has been checked for that."""

    def drain(self, is_stopping: Callable[[], bool]) -> bool:
        """Nothing is played ahead."""
        return True

    def close(self) -> None:
        """There are no workers."""

    @property
    def _current(self) -> ExactPsro:
        if self._psro is None:
            raise RuntimeError("begin() has not been called")
        return self._psro

    def _look_at_stoppers(self) -> None:
        self._reason = reason_to_stop(self._current, self._config.stop)
        if self._reason:
            self._rooms.telemetry.event("population_done", generation=self._current.generation, reason=self._reason)

    def _metrics(self) -> dict[str, float]:
        psro = self._current
        by_seat = {
            f"psro/seat_{seat}/{name}": float(value)
            for seat in (0, 1)
            for name, value in {
                "policies": len(psro.populations[seat]),
                "support": (psro.meta.seats[seat] > 0).sum(),
            }.items()
        }
        return {"psro/nash_conv": psro.nash_conv, "psro/value": psro.value, **by_seat, "psro/cpu_s": self._cpu_s}

    def _tell_histories(self, histories: int) -> None:
        self._rooms.telemetry.metrics(0, {"psro/histories": float(histories)})


def shape_of(form: SequenceForm) -> TabularShape:
    """The shape of policies of this game, with what the rows of their tensors mean."""
    seats = [
        [
            {"knows": knows, "actions": tree.actions[start : start + width].tolist()}
            for knows, start, width in zip(tree.information_sets, tree.starts, tree.widths, strict=True)
        ]
        for tree in form.seats
    ]
    return TabularShape(
        game=f"open_spiel:{form.game}",
        sequences=tuple(tree.sequences for tree in form.seats),
        listing=json.dumps(seats, ensure_ascii=False).encode(),
    )
