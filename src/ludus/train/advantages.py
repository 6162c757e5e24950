"""Advantages and value targets of ragged experience, in NumPy: float64 inside, float32 out.

A sequence is one seat's own decisions (or one policy's tokens). Only elements with `mask` form its chain: values and
advantages are carried over what others wrote (prompt, opponent, tool), as verl does; a reward that landed on such an
element belongs to the decision before it, and one before the first decision is nobody's. Elements outside the mask get
advantage 0 and target 0.

A truncated sequence goes on from the sequence column `bootstrap_value` where there is one; else GAE and V-trace take
the last decision's own value for what would have followed, and Monte Carlo takes 0.

All kinds but those over groups (`group_advantages.py`) are one recursion, V-trace's; with importance weights 1 it is
GAE. The chains are laid out end-aligned, `[K, n]` with row 0 the last decision, so the loop is over the longest chain
and vectorised over sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.config import GROUP_KINDS, AdvantageConfig
from ludus.config.parts import ADVANTAGES
from ludus.errors import ConfigError, TrainError
from ludus.records import Experiences
from ludus.train.group_advantages import group_advantages
from ludus.train.sources import ON_POLICY

Floats = NDArray[np.float64]
Credit = tuple[NDArray[np.float32], NDArray[np.float32]]
"""Advantage `[N]` and value target `[N]`."""
Advantage = Callable[..., tuple[NDArray[Any], NDArray[Any]]]
"""A function of whole sequences, with its options as keywords: advantage `[N]` and value target `[N]` of every step."""


def compute(experiences: Experiences, config: AdvantageConfig, current_logp: NDArray[Any] | None = None) -> Credit:
    """Advantages and targets by the config's kind; its `perspective` does not matter: a sequence is a seat's own chain.

    `current_logp`: `[N]`, for V-trace: log-probabilities under the policy being trained. Default: on-policy.
    """
    if config.kind == "monte_carlo":
        return monte_carlo(experiences, gamma=config.gamma)
    if config.kind == "gae":
        return gae(experiences, gamma=config.gamma, lam=config.lam)
    if config.kind in GROUP_KINDS:
        return group_advantages(experiences, config)
    if config.kind == "remax":
        return remax(experiences, gamma=config.gamma)
    if config.kind == "distill":
        return distill(experiences)
    if config.kind == "custom":
        return _own(experiences, config.name or "", config.options)
    return vtrace(
        experiences,
        current_logp,
        gamma=config.gamma,
        lam=config.lam,
        rho_clip=config.rho_clip,
        c_clip=config.c_clip,
    )


def register_advantage(name: str, function: Advantage) -> None:
    """Make an advantage known under a name, for `advantage: {kind: custom, name: ...}`."""
    if not callable(function):
        raise ConfigError(f"advantage {name!r}: expected a function of Experiences, got {type(function).__name__}")
    ADVANTAGES.add(name, function)


def _own(experiences: Experiences, name: str, options: Mapping[str, Any]) -> Credit:
    """What a plugin computes: nothing outside the mask, and of the right size."""
    begin, stop = int(experiences.offsets[0]), int(experiences.offsets[-1])
    mask = np.asarray(experiences.steps["mask"][begin:stop], bool)
    found = tuple(np.asarray(column, np.float32) for column in ADVANTAGES.find(name)(experiences, **options))
    if [column.shape for column in found] != [mask.shape] * 2:
        shapes = " and ".join(str(column.shape) for column in found)
        raise TrainError(f"advantage {name} must give two columns of {len(mask)} numbers, got {shapes or 'none'}")
    advantage, target = (np.where(mask, column, np.float32(0.0)) for column in found)
    for what, column in (("advantage", advantage), ("target", target)):
        if not np.isfinite(column).all():
            step = int(np.flatnonzero(~np.isfinite(column))[0])
            raise TrainError(f"advantage {name}: its {what} is {column[step]} at step {step} of {len(mask)}")
    return advantage, target


def compute_on_policy(
    experiences: Experiences,
    source: NDArray[Any] | None,
    config: AdvantageConfig,
    current_logp: NDArray[Any] | None = None,
) -> Credit:
    """As `compute`, from on-policy sequences alone; the elements of others get 0. Offsets begin at 0.

    `source`: code of each sequence, `[n]`; None: all are on-policy.
    """
    if source is None:
        return compute(experiences, config, current_logp)
    own = (source == ON_POLICY)[experiences.sequence_of_step()]
    advantage, target = (np.zeros(len(own), np.float32) for _ in range(2))
    if own.any():
        part = experiences.take(np.flatnonzero(source == ON_POLICY))
        logp = None if current_logp is None else current_logp[own]
        advantage[own], target[own] = compute(part, config, logp)
    return advantage, target


def whitened(advantage: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Centred and scaled by the unbiased variance over the mask, as verl does; 0 elsewhere, and where all are equal."""
    chosen = advantage[mask].astype(np.float64)
    if len(chosen) < 2:
        return np.zeros_like(advantage)
    with np.errstate(invalid="ignore"):  # what is not finite makes the step be skipped
        scale = 1.0 / np.sqrt(chosen.var(ddof=1) + 1e-8)
        return np.where(mask, (advantage - chosen.mean()) * scale, 0.0).astype(np.float32)


def monte_carlo(experiences: Experiences, *, gamma: float = 1.0) -> Credit:
    """The discounted return, both as advantage and as target: no value estimate is used, not even as a baseline."""
    chains = _Chains(experiences, own_value_follows=False)
    zeros = np.zeros_like(chains.value)
    advantage, _ = _trace(chains.reward, zeros, chains.bootstrap, None, None, gamma=gamma, lam=1.0)
    returns = chains.scatter(advantage)
    return returns, returns


def remax(experiences: Experiences, *, gamma: float = 1.0) -> Credit:
    """The return less what the greedy answer to the same prompt got, the sequence column `baseline`.

    A sequence whose baseline is not a number (its greedy answer failed) has nothing to be compared with and gets 0.
    """
    if "baseline" not in experiences.sequences:
        raise TrainError("the experience has no column baseline (reward of the greedy answer), which remax needs")
    returns, target = monte_carlo(experiences, gamma=gamma)
    begin, stop = int(experiences.offsets[0]), int(experiences.offsets[-1])
    mask = np.asarray(experiences.steps["mask"][begin:stop], bool)
    baseline = np.asarray(experiences.sequences["baseline"], np.float32)[experiences.sequence_of_step()]
    return np.where(mask & np.isfinite(baseline), returns - np.nan_to_num(baseline), 0.0).astype(np.float32), target


def distill(experiences: Experiences) -> Credit:
    """How much likelier each token is to the teacher (step column `teacher_logp`) than to the policy that said it."""
    if "teacher_logp" not in experiences.steps:
        raise TrainError("the experience has no column teacher_logp (what the teacher thinks), which distill needs")
    begin, stop = int(experiences.offsets[0]), int(experiences.offsets[-1])
    mask, teacher, own = (experiences.steps[name][begin:stop] for name in ("mask", "teacher_logp", "logp"))
    advantage = np.where(np.asarray(mask, bool), teacher - own, 0.0).astype(np.float32)
    return advantage, advantage


def gae(experiences: Experiences, *, gamma: float = 1.0, lam: float = 0.95) -> Credit:
    """Generalised advantage estimation; the target is advantage + value, before any normalisation."""
    chains = _Chains(experiences, own_value_follows=True)
    advantage, correction = _trace(chains.reward, chains.value, chains.bootstrap, None, None, gamma=gamma, lam=lam)
    return chains.scatter(advantage), chains.scatter(correction + chains.value)


def vtrace(
    experiences: Experiences,
    current_logp: NDArray[Any] | None,
    *,
    gamma: float = 1.0,
    lam: float = 1.0,
    rho_clip: float = 1.0,
    c_clip: float = 1.0,
) -> Credit:
    """V-trace: values of the policy being trained from what another one did (as rlax, with `lam` on the traces)."""
    chains = _Chains(experiences, own_value_follows=True)
    rho = c = None
    if current_logp is not None:
        ratio = np.exp(np.clip(chains.gather(current_logp) - chains.gather(experiences.steps["logp"]), -20.0, 20.0))
        rho, c = np.minimum(ratio, rho_clip), np.minimum(ratio, c_clip)
    advantage, correction = _trace(chains.reward, chains.value, chains.bootstrap, rho, c, gamma=gamma, lam=lam)
    return chains.scatter(advantage), chains.scatter(correction + chains.value)


def _trace(
    reward: Floats,
    value: Floats,
    bootstrap: Floats,
    rho: Floats | None,
    c: Floats | None,
    *,
    gamma: float,
    lam: float,
) -> tuple[Floats, Floats]:
    """Policy-gradient advantage and value correction (target - value), both `[K, n]`, row 0 last in time."""
    advantage, correction = np.empty_like(value), np.empty_like(value)
    next_value, next_correction = bootstrap, np.zeros_like(bootstrap)
    for k in range(len(value)):
        difference = reward[k] + gamma * next_value - value[k]
        lookahead = gamma * lam * next_correction
        advantage[k] = difference + lookahead
        correction[k] = advantage[k]
        if rho is not None and c is not None:
            advantage[k] = rho[k] * (difference + lookahead)
            correction[k] = rho[k] * difference + c[k] * lookahead
        next_value, next_correction = value[k], correction[k]
    return advantage, correction


class _Chains:
    """The masked elements of ragged sequences as end-aligned columns `[K, n]`."""

    def __init__(self, experiences: Experiences, *, own_value_follows: bool) -> None:
        steps, begin = experiences.steps, int(experiences.offsets[0])
        stop = begin + experiences.step_count
        mask = np.asarray(steps["mask"][begin:stop], bool)
        sequence = experiences.sequence_of_step()
        self._begin, self._stop = begin, stop
        self._elements = np.flatnonzero(mask)
        self._sequence = sequence[self._elements]
        counts = np.bincount(self._sequence, minlength=len(experiences))
        ends = np.cumsum(counts)
        self._from_end = np.repeat(ends, counts) - 1 - np.arange(len(self._elements))
        self._shape = (int(counts.max(initial=0)), len(experiences))
        self.value = self.gather(steps["value"])
        self.reward = self._collect_rewards(np.asarray(steps["reward"][begin:stop], np.float64), mask, sequence)
        self.bootstrap = self._bootstrap(experiences, own_value_follows)

    def gather(self, column: NDArray[Any]) -> Floats:
        """A step column as chains; 0 beyond the beginning of a shorter one."""
        chains = np.zeros(self._shape, np.float64)
        chains[self._from_end, self._sequence] = column[self._begin : self._stop][self._elements]
        return chains

    def scatter(self, chains: Floats) -> NDArray[np.float32]:
        """Chains back as a step column; 0 outside the mask."""
        column = np.zeros(self._stop - self._begin, np.float32)
        column[self._elements] = chains[self._from_end, self._sequence]
        return column

    def _collect_rewards(self, reward: Floats, mask: NDArray[np.bool_], sequence: NDArray[np.int64]) -> Floats:
        """Add every reward to the latest decision of its own sequence."""
        latest = np.cumsum(mask) - 1
        owned = np.flatnonzero(latest >= 0)
        owned = owned[self._sequence[latest[owned]] == sequence[owned]]
        chains = np.zeros(self._shape, np.float64)
        place = latest[owned]
        np.add.at(chains, (self._from_end[place], self._sequence[place]), reward[owned])
        return chains

    def _bootstrap(self, experiences: Experiences, own_value_follows: bool) -> Floats:
        n = len(experiences)
        if "truncated" not in experiences.sequences or not self._shape[0]:
            return np.zeros(n, np.float64)
        follows: Any = self.value[0] if own_value_follows else 0.0
        if "bootstrap_value" in experiences.sequences:
            follows = np.asarray(experiences.sequences["bootstrap_value"], np.float64)
        return np.where(np.asarray(experiences.sequences["truncated"], bool), follows, 0.0)
