"""Algorithms by name: which advantage, which terms, how many passes. `train.algorithm` may replace each part.

To add one: in a plugin, `register_preset` (or an entry point of the group `ludus.presets`); here, an entry and a page
in docs/algorithms, which tests keep equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ludus.config.sections.chess_losses import CHESS_ADVANTAGE, CHESS_OBJECTIVE
from ludus.config.sections.train import AdvantageConfig, Aggregation, AlgorithmConfig, MuConfig, Source, TermConfig
from ludus.errors import ConfigError
from ludus.plugins import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """The parts of a named algorithm."""

    advantage: AdvantageConfig
    objective: tuple[TermConfig, ...]
    epochs: int = 1
    aggregation: Aggregation = "token_mean"
    """Language models: how the loss is averaged; `train.aggregation` replaces it."""
    mu: MuConfig | None = None
    critic: Literal["shared", "own", "central"] = "shared"
    """Networks: as `policy.critic`, which replaces it."""
    value_normalisation: bool = False
    """Networks: as `train.value_normalisation`, which replaces it."""


def _term(loss: str, **options: Any) -> TermConfig:
    return TermConfig(loss=loss, options=options)


_VALUE = _term("value", clip=None)
_ENTROPY = TermConfig(loss="entropy", weight=0.01)
_SEEN_ENTROPY = TermConfig(loss="entropy", weight=0.0)
"""Counts for nothing, so that a config need only change its weight."""
_PPO_CLIP = _term("ppo_clip", clip_low=0.2, clip_high=0.2, dual_clip=None)

_RETURNS = AdvantageConfig(kind="monte_carlo", normalise=False)
_GROUP = AdvantageConfig(kind="group", normalise=False)
_GROUP_UNSCALED = AdvantageConfig(kind="group", scale="none", normalise=False)


def _plain(kind: Any, **more: Any) -> AdvantageConfig:
    return AdvantageConfig(kind=kind, normalise=False, **more)


def _on_policy(advantage: AdvantageConfig, loss: TermConfig = _PPO_CLIP, **more: Any) -> Preset:
    return Preset(advantage=advantage, objective=(loss, _SEEN_ENTROPY), **more)


def _multi_agent(critic: Literal["own", "central"]) -> Preset:
    """PPO as the MAPPO paper has it: the presets differ in what the critic sees, and in nothing else."""
    return Preset(
        advantage=AdvantageConfig(gamma=0.99),
        objective=(_PPO_CLIP, _term("value", clip=0.2), _ENTROPY),
        epochs=10,
        critic=critic,
        value_normalisation=True,
    )


def _mixed(imitation: TermConfig, mu: MuConfig) -> Preset:
    """(1 - mu) GRPO on on-policy rows + mu imitation of expert rows."""
    policy = _PPO_CLIP.model_copy(update={"share": "rest"})
    imitation = imitation.model_copy(update={"source": "expert", "share": "mu"})
    return Preset(
        advantage=_GROUP,
        objective=(policy, imitation, _SEEN_ENTROPY),
        aggregation="sequence_mean_token_mean",
        mu=mu,
    )


ALGORITHMS: dict[str, Preset] = {
    # With a value estimate.
    "ppo": Preset(advantage=AdvantageConfig(), objective=(_PPO_CLIP, _VALUE, _ENTROPY), epochs=4),
    "ippo": _multi_agent("own"),
    "mappo": _multi_agent("central"),
    "a2c": Preset(advantage=AdvantageConfig(), objective=(_term("reinforce"), _VALUE, _ENTROPY)),
    # By returns.
    "reinforce": _on_policy(AdvantageConfig(kind="monte_carlo"), _term("reinforce")),
    "reinforce_pp": _on_policy(_plain("monte_carlo", normalise_batch=True)),
    "remax": _on_policy(_plain("remax")),
    "topr": _on_policy(_RETURNS, _term("topr", threshold=0.0, level="sequence")),
    # By comparison within groups.
    "reinforce_pp_baseline": _on_policy(_plain("group", scale="none", normalise_batch=True)),
    "grpo": _on_policy(_GROUP),
    "dr_grpo": _on_policy(_GROUP_UNSCALED, aggregation="constant_norm"),
    "dapo": _on_policy(_GROUP, _term("ppo_clip", clip_low=0.2, clip_high=0.28, dual_clip=None)),
    "rloo": _on_policy(_plain("rloo")),
    "gspo": _on_policy(
        _GROUP,
        _term("ppo_clip", clip_low=3e-4, clip_high=4e-4, dual_clip=None, level="sequence"),
        aggregation="sequence_mean_token_mean",
    ),
    "cispo": _on_policy(_GROUP, _term("cispo", clip_low=None, clip_high=0.28)),
    "sapo": _on_policy(
        _GROUP, _term("sapo", tau_positive=1.0, tau_negative=1.05), aggregation="sequence_mean_token_mean"
    ),
    "opmd": _on_policy(_plain("opmd"), _term("opmd", tau=1.0)),
    "asymre": _on_policy(_plain("asymre"), _term("reinforce")),
    # From others.
    "sft": Preset(advantage=_RETURNS, objective=(TermConfig(loss="sft", source="expert"),)),
    "dpo": Preset(
        advantage=_RETURNS,
        objective=(TermConfig(loss="dpo", source="pairs", options={"beta": 0.1, "label_smoothing": 0.0}),),
    ),
    "distill": _on_policy(_plain("distill"), _term("ppo_clip", clip_low=None, clip_high=None, dual_clip=None)),
    "mix": _mixed(_term("sft"), MuConfig(peak=0.1)),
    "chord": _mixed(_term("sft", weighting="phi"), MuConfig(peak=0.9, valley=0.05, decay_fraction=0.5)),
}


CHESS = Preset(advantage=CHESS_ADVANTAGE, objective=CHESS_OBJECTIVE)
"""For chess networks on a loader's tensors: policy, result and plies left. No advantage is computed."""

PRESETS: Registry[Preset] = Registry("preset", "ludus.presets", built_in={**ALGORITHMS, "chess": CHESS})


def register_preset(name: str, preset: Preset) -> None:
    """Make an algorithm known under a name, for `train.algorithm.preset`."""
    if not isinstance(preset, Preset):
        raise ConfigError(f"preset {name!r}: expected a Preset, got {type(preset).__name__}")
    PRESETS.add(name, preset)


def preset_of(algorithm: AlgorithmConfig) -> Preset:
    """The parts of the preset that a config names; those of ppo where there is none, which a check refuses."""
    return PRESETS.get(algorithm.preset) or ALGORITHMS["ppo"]


def needs_critic(algorithm: AlgorithmConfig) -> bool:
    """Whether what is learnt includes a value estimate: an objective with a `value` term."""
    return any(term.loss == "value" for term in terms_of(algorithm))


def wanted_sources(algorithm: AlgorithmConfig) -> frozenset[Source]:
    """The sources that terms which can count name; a batch without rows of one of them starves a term."""
    return frozenset(term.source for term in terms_of(algorithm) if term.weight or term.weight_end)


def needs_greedy(algorithm: AlgorithmConfig) -> bool:
    """Whether the last attempt of each group is the policy's likeliest, for the others to be compared with."""
    return _advantage(algorithm).kind == "remax" and "on_policy" in wanted_sources(algorithm)


def needs_teacher(algorithm: AlgorithmConfig) -> bool:
    """Whether a teacher must score every token."""
    return _advantage(algorithm).kind == "distill"


def _advantage(algorithm: AlgorithmConfig) -> AdvantageConfig:
    return preset_of(algorithm).advantage if algorithm.advantage is None else algorithm.advantage


def terms_of(algorithm: AlgorithmConfig) -> tuple[TermConfig, ...]:
    """The objective: its own terms, or the preset's."""
    return preset_of(algorithm).objective if algorithm.objective is None else algorithm.objective
