"""Exact PSRO: a population that is computed, without explorers, trainer or games. One update is one generation.

Durable by recomputation: a checkpoint holds what every policy plays, the payoff table and the meta-strategy, and
everything after it is a function of those. The tree of the game is walked anew at every start.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ludus.config import PopulationConfig
from ludus.errors import ConfigError
from ludus.games.sequence_form import SequenceForm
from ludus.games.sequence_form_building import build_sequence_form
from ludus.league.exact import ExactPsro, reason_to_stop
from ludus.orchestrator.context import RunContext
from ludus.orchestrator.progress import Learner, UpdateReport
from ludus.policies import TabularShape
from ludus.reports.exact_population import PART
from ludus.sources.protocol import Batch, OwnSource
from ludus.storage.checkpoints import Checkpoint
from ludus.storage.tensors import save_tensors


class ExactPsroLearner(Learner, OwnSource):
    """A learner that is its own source: it needs nothing but the tree of the game."""

    _psro: ExactPsro
    """From `begin` on."""

    def __init__(self, context: RunContext) -> None:
        config = context.config
        if config.population is None:
            raise ConfigError("topology: tabular computes a population, and population is null; write population: {}")
        self._context = context
        self._config: PopulationConfig = config.population
        self.publish_interval: int | None = config.league.snapshot_every
        self.shape = context.shape
        self._cpu_s = 0.0
        self._reason = ""
        context.telemetry.meters.keep("train", "policies", "storage")

    @property
    def is_exhausted(self) -> bool:
        """Whether a stopping rule of `population.stop` holds."""
        return bool(self._reason)

    def begin(self, saved: Checkpoint | None) -> None:
        """Walk the game's tree, and make the first population or load the saved one."""
        (spec,) = self._context.specs.values()
        form = build_sequence_form(spec.tree, most_histories=self._config.max_histories, report=self._tell_histories)
        self._tell_histories(form.histories)
        self.shape = shape_of(form)
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
        self._context.telemetry.metrics(self._psro.generation, self._metrics())
        self._look_at_stoppers()

    def step(self, batch: Batch | None) -> UpdateReport:
        """One generation."""
        started = time.process_time()
        with self._context.telemetry.room("psro"):
            self._psro.advance()
        self._cpu_s += time.process_time() - started
        self._context.telemetry.meters.add("train", 1)
        self._look_at_stoppers()
        return UpdateReport(steps=1, episodes=0, metrics=self._metrics())

    def save(self, staging: Path) -> dict[str, Any]:
        """Write the population."""
        save_tensors(staging / f"{PART}.safetensors", self._psro.tensors())
        return {"cpu_s": self._cpu_s}

    def weights(self) -> Mapping[str, NDArray[Any]]:
        """The meta-strategy as a policy of each seat, with the population that it is made of."""
        policies = {f"seat_{seat}/policy": policy for seat, policy in enumerate(self._psro.policies())}
        return {**policies, **self._psro.tensors()}

    def _look_at_stoppers(self) -> None:
        self._reason = reason_to_stop(self._psro, self._config.stop)
        if self._reason:
            self._context.telemetry.event("population_done", generation=self._psro.generation, reason=self._reason)

    def _metrics(self) -> dict[str, float]:
        psro = self._psro
        by_seat = {
            f"psro/seat_{seat}/{name}": float(value)
            for seat in (0, 1)
            for name, value in {
                "policies": len(psro.populations[seat]),
                "support": (psro.meta[seat] > 0).sum(),
            }.items()
        }
        return {"psro/nash_conv": psro.nash_conv, "psro/value": psro.value, **by_seat, "psro/cpu_s": self._cpu_s}

    def _tell_histories(self, histories: int) -> None:
        self._context.telemetry.metrics(0, {"psro/histories": float(histories)})


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
