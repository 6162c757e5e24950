"""Algorithms by name: which advantage, which terms, how many passes. `train.algorithm` may replace each part.

To add one: an entry here and its name in `AlgorithmConfig.preset`; a test keeps both sets equal.
"""

from __future__ import annotations

from dataclasses import dataclass

from ludus.config.learn import AdvantageConfig, AlgorithmConfig, TermConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """The parts of a named algorithm."""

    advantage: AdvantageConfig
    objective: tuple[TermConfig, ...]
    epochs: int


_VALUE = TermConfig(loss="value", weight=1.0, options={"clip": None})
_ENTROPY = TermConfig(loss="entropy", weight=0.01)
_PPO_CLIP = TermConfig(loss="ppo_clip", options={"clip_low": 0.2, "clip_high": 0.2, "dual_clip": None})

ALGORITHMS: dict[str, Preset] = {
    "ppo": Preset(advantage=AdvantageConfig(), objective=(_PPO_CLIP, _VALUE, _ENTROPY), epochs=4),
    "a2c": Preset(advantage=AdvantageConfig(), objective=(TermConfig(loss="reinforce"), _VALUE, _ENTROPY), epochs=1),
    "reinforce": Preset(
        advantage=AdvantageConfig(kind="monte_carlo"),
        objective=(TermConfig(loss="reinforce"), TermConfig(loss="entropy", weight=0.0)),
        epochs=1,
    ),
    "grpo": Preset(
        advantage=AdvantageConfig(kind="group", normalise=False),
        objective=(_PPO_CLIP, TermConfig(loss="entropy", weight=0.0)),
        epochs=1,
    ),
    "sft": Preset(
        advantage=AdvantageConfig(kind="monte_carlo", normalise=False),
        objective=(TermConfig(loss="sft"),),
        epochs=1,
    ),
}


def needs_critic(algorithm: AlgorithmConfig) -> bool:
    """Whether what is learnt includes a value estimate: an objective with a `value` term."""
    terms = ALGORITHMS[algorithm.preset].objective if algorithm.objective is None else algorithm.objective
    return any(term.loss == "value" for term in terms)
