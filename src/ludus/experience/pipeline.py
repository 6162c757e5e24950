"""The transforms of a run, in the order of its config, and the registry they are looked up in.

Invariant: a transform that returns something else than finite values of the same shape stops the run with its name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ludus.config import CustomTransformConfig, ExperienceConfig
from ludus.errors import ConfigError, LudusError
from ludus.experience.transform_phases import Stage, Transform, Values, set_totals
from ludus.experience.transforms import FormatReward, InvalidMove, Normalise, NormaliseByGame, RoleAdvantage
from ludus.plugins import Registry
from ludus.records import Experiences

log = logging.getLogger(__name__)

Factory = Callable[..., Transform]
"""Called with the transform's options as keyword arguments."""

TRANSFORMS: dict[Stage, dict[str, Factory]] = {
    "final": {"role_advantage": RoleAdvantage},
    "step": {"format": FormatReward, "invalid_move": InvalidMove},
    "sampling": {"normalise": Normalise, "normalise_by_game": NormaliseByGame},
}

REGISTRIES: dict[Stage, Registry[Factory]] = {
    stage: Registry(f"{stage} transform", "ludus.transforms", built_in=known) for stage, known in TRANSFORMS.items()
}

Named = tuple[str, Transform]


def register_transform(stage: Stage, name: str, factory: Factory) -> None:
    """Make a transform available in `experience.<stage>` as `{kind: custom, name: <name>, options: {…}}`."""
    if stage not in TRANSFORMS:
        raise ConfigError(f"no stage {stage!r}; there are {', '.join(TRANSFORMS)}")
    REGISTRIES[stage].add(name, factory)


class Pipeline:
    """Applies the transforms of each stage. Holds what they remember. One thread."""

    def __init__(
        self, *, final: Sequence[Named] = (), step: Sequence[Named] = (), sampling: Sequence[Named] = ()
    ) -> None:
        self._stages: dict[Stage, tuple[Named, ...]] = {
            "final": tuple(final),
            "step": tuple(step),
            "sampling": tuple(sampling),
        }

    def on_final(self, experiences: Experiences) -> Experiences:
        """Shape the totals of sequences that just arrived. Call once for each sequence, in task order."""
        return self._on_totals("final", experiences)

    def on_step(self, experiences: Experiences) -> Experiences:
        """Shape the rewards of their elements. Call once for each sequence, after `on_final`."""
        if not self._stages["step"] or not len(experiences):
            return experiences
        values = self._run("step", experiences.steps["reward"].astype(np.float64), experiences)
        return experiences.replace(steps={"reward": values.astype(np.float32)})

    def on_sample(self, experiences: Experiences) -> Experiences:
        """Shape the totals of a sampled batch; what is stored stays as it is."""
        return self._on_totals("sampling", experiences)

    def state(self) -> dict[str, Any]:
        """JSON for the checkpoint."""
        return {
            stage: [{"name": name, "state": transform.state()} for name, transform in transforms]
            for stage, transforms in self._stages.items()
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore every transform that is still at its place; others start fresh, with a warning."""
        for stage, transforms in self._stages.items():
            saved = state.get(stage, [])
            for place, (name, transform) in enumerate(transforms):
                if place < len(saved) and saved[place]["name"] == name:
                    transform.load_state(saved[place]["state"])
                else:
                    log.warning("transform %s of stage %s is not in the checkpoint; it starts fresh", name, stage)

    def _on_totals(self, stage: Stage, experiences: Experiences) -> Experiences:
        if not self._stages[stage] or not len(experiences):
            return experiences
        values = self._run(stage, experiences.sequences["shaped_reward"].astype(np.float64), experiences)
        return set_totals(experiences, values)

    def _run(self, stage: Stage, values: Values, experiences: Experiences) -> Values:
        for name, transform in self._stages[stage]:
            result = np.asarray(transform.apply(values, experiences), np.float64)
            if result.shape != values.shape or not np.isfinite(result).all():
                raise LudusError(
                    f"transform {name} of stage {stage} must return {values.shape[0]} finite values, "
                    f"got shape {result.shape} with {int((~np.isfinite(result)).sum())} that are not finite"
                )
            values = result
        return values


def build_pipeline(config: ExperienceConfig) -> Pipeline:
    """Build every transform that a config names, or say at once which are unknown."""
    built: dict[Stage, list[Named]] = {"final": [], "step": [], "sampling": []}
    problems = []
    for stage, transforms in built.items():
        for place, choice in enumerate(getattr(config, stage)):
            is_custom = isinstance(choice, CustomTransformConfig)
            name = choice.name if is_custom else choice.kind
            options = choice.options if is_custom else choice.model_dump(exclude={"kind"})
            try:
                transforms.append((name, _make(stage, name, options)))
            except ConfigError as error:
                problems += [f"experience.{stage}.{place}: {problem}" for problem in error.problems]
    if problems:
        raise ConfigError(*problems)
    return Pipeline(final=built["final"], step=built["step"], sampling=built["sampling"])


def _make(stage: Stage, name: str, options: dict[str, Any]) -> Transform:
    factory = REGISTRIES[stage].find(name)
    try:
        return factory(**options)
    except TypeError as error:
        raise ConfigError(f"transform {name}: {error}") from error
