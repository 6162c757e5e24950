"""The transforms of a run, in the order of its config.

Invariant: a transform that returns something else than finite values of the same shape stops the run with its name.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from ludus.config import ExperienceConfig
from ludus.config.sections.experience import CustomTransformConfig
from ludus.errors import ConfigError, LudusError
from ludus.experience.transforms import REGISTRIES, Transform, TransformPhase, Values, set_totals
from ludus.records import Experiences

log = logging.getLogger(__name__)

Named = tuple[str, Transform]


class Pipeline:
    """Applies the transforms of each phase. Holds what they remember. One thread."""

    def __init__(
        self, *, final: Sequence[Named] = (), step: Sequence[Named] = (), sampling: Sequence[Named] = ()
    ) -> None:
        self._phases: dict[TransformPhase, tuple[Named, ...]] = {
            "final": tuple(final),
            "step": tuple(step),
            "sampling": tuple(sampling),
        }

    def on_final(self, experiences: Experiences) -> Experiences:
        """Shape the totals of sequences that just arrived. Call once for each sequence, in task order."""
        return self._on_totals("final", experiences)

    def on_step(self, experiences: Experiences) -> Experiences:
        """Shape the rewards of their elements. Call once for each sequence, after `on_final`."""
        if not self._phases["step"] or not len(experiences):
            return experiences
        values = self._run("step", experiences.steps["reward"].astype(np.float64), experiences)
        return experiences.replace(steps={"reward": values.astype(np.float32)})

    def on_sample(self, experiences: Experiences) -> Experiences:
        """Shape the totals of a sampled batch; what is stored stays as it is."""
        return self._on_totals("sampling", experiences)

    def state(self) -> dict[str, Any]:
        """JSON for the checkpoint."""
        return {
            phase: [{"name": name, "state": transform.state()} for name, transform in transforms]
            for phase, transforms in self._phases.items()
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore every transform that is still at its place; others start fresh, with a warning."""
        for phase, transforms in self._phases.items():
            saved = state.get(phase, [])
            for place, (name, transform) in enumerate(transforms):
                if place < len(saved) and saved[place]["name"] == name:
                    transform.load_state(saved[place]["state"])
                else:
                    log.warning("transform %s of phase %s is not in the checkpoint; it starts fresh", name, phase)

    def _on_totals(self, phase: TransformPhase, experiences: Experiences) -> Experiences:
        if not self._phases[phase] or not len(experiences):
            return experiences
        values = self._run(phase, experiences.sequences["shaped_reward"].astype(np.float64), experiences)
        return set_totals(experiences, values)

    def _run(self, phase: TransformPhase, values: Values, experiences: Experiences) -> Values:
        for name, transform in self._phases[phase]:
            result = np.asarray(transform.apply(values, experiences), np.float64)
            if result.shape != values.shape or not np.isfinite(result).all():
                raise LudusError(
                    f"transform {name} of phase {phase} must return {values.shape[0]} finite values, "
                    f"got shape {result.shape} with {int((~np.isfinite(result)).sum())} that are not finite"
                )
            values = result
        return values


def build_pipeline(config: ExperienceConfig) -> Pipeline:
    """Build every transform that a config names, or say at once which are unknown."""
    built: dict[TransformPhase, list[Named]] = {"final": [], "step": [], "sampling": []}
    problems = []
    for phase, transforms in built.items():
        for place, choice in enumerate(getattr(config, phase)):
            is_custom = isinstance(choice, CustomTransformConfig)
            name = choice.name if is_custom else choice.kind
            options = choice.options if is_custom else choice.model_dump(exclude={"kind"})
            try:
                transforms.append((name, REGISTRIES[phase].find(name)(**options)))
            except TypeError as error:
                problems.append(f"experience.{phase}.{place}: transform {name}: {error}")
            except ConfigError as error:
                problems += [f"experience.{phase}.{place}: {problem}" for problem in error.problems]
    if problems:
        raise ConfigError(*problems)
    return Pipeline(final=built["final"], step=built["step"], sampling=built["sampling"])
