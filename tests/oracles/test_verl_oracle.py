"""Losses and advantages against verl 0.9.1's `core_algos`, values and gradients, on random tensors with random masks.

`fetch_verl.py` says how to run them. Where the two differ on purpose, the test says how.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ludus.config import TermConfig
from ludus.train.importance import importance_weight

from .conftest import Sample, assert_same, ours, theirs

pytestmark = pytest.mark.filterwarnings("ignore")

SEEDS = [0, 1, 2]
MODES = {
    "token_mean": "token-mean",
    "sequence_mean_token_mean": "seq-mean-token-mean",
    "sequence_mean_token_sum": "seq-mean-token-sum",
    "constant_norm": "seq-mean-token-sum-norm",
}
GROUPS = ["a", "b", "a", "b", "a", "b", "b"]


@pytest.fixture(scope="module")
def verl(outside: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from verl.trainer.ppo import core_algos

        return core_algos


def actor(**settings: Any) -> Any:
    from verl.workers.config import ActorConfig

    return ActorConfig(strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1, **settings)


def policy_loss(verl: Any, name: str, sample: Sample, mode: str, **settings: Any) -> Any:
    function, config = verl.get_policy_loss_fn(name), actor(**settings)
    return theirs(
        lambda logp: function(sample.old_logp, logp, sample.advantage, sample.mask, mode, config)[0], sample.logp
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("how", MODES)
def test_ppo_with_clip_higher_and_dual_clip_in_every_aggregation(verl: Any, seed: int, how: str) -> None:
    """The empty row is not among the rows that are counted, and the sum's norm is divided by the rows too."""
    sample = Sample.draw(seed, spread=1.0)
    expected = policy_loss(
        verl, "vanilla", sample, MODES[how], clip_ratio_low=0.2, clip_ratio_high=0.28, clip_ratio_c=3.0
    )
    options = {"clip_low": 0.2, "clip_high": 0.28, "dual_clip": 3.0}
    assert_same(ours(TermConfig(loss="ppo_clip", options=options), sample, how), expected)


@pytest.mark.parametrize("how", ["token_mean", "sequence_mean_token_mean"])
@pytest.mark.parametrize("seed", SEEDS)
def test_gspo(verl: Any, seed: int, how: str) -> None:
    sample = Sample.draw(seed, spread=0.05)
    expected = policy_loss(verl, "gspo", sample, MODES[how], clip_ratio_low=0.01, clip_ratio_high=0.02)
    options = {"clip_low": 0.01, "clip_high": 0.02, "level": "sequence"}
    assert_same(ours(TermConfig(loss="ppo_clip", options=options), sample, how), expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_cispo(verl: Any, seed: int) -> None:
    """verl always has a lower bound; at 1 it is none, which is our default."""
    sample = Sample.draw(seed, spread=1.0)
    for low, clip_low in ((0.2, 0.2), (1.0, None)):
        expected = policy_loss(verl, "cispo", sample, "token-mean", clip_ratio_low=low, clip_ratio_high=0.28)
        term = TermConfig(loss="cispo", options={"clip_low": clip_low, "clip_high": 0.28})
        assert_same(ours(term, sample), expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_sapo(verl: Any, seed: int) -> None:
    sample = Sample.draw(seed, spread=1.0)
    expected = policy_loss(verl, "sapo", sample, "seq-mean-token-mean", tau_pos=1.0, tau_neg=1.05)
    assert_same(ours(TermConfig(loss="sapo"), sample, "sequence_mean_token_mean"), expected)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("how", MODES)
def test_the_value_loss(verl: Any, seed: int, how: str) -> None:
    sample = Sample.draw(seed)
    expected = theirs(
        lambda value: verl.compute_value_loss(value, sample.target, sample.old_value, sample.mask, 0.2, MODES[how])[0],
        sample.value,
    )
    assert_same(ours(TermConfig(loss="value", options={"clip": 0.2}), sample, how), expected)


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_the_kl_estimators(verl: Any, estimator: str) -> None:
    """verl's k3 is capped at 10; ours is so on request."""
    sample = Sample.draw(0, spread=4.0)
    expected = theirs(
        lambda logp: verl.agg_loss(verl.kl_penalty(logp, sample.ref_logp, estimator), sample.mask, "token-mean"),
        sample.logp,
    )
    cap = {"cap": 10.0} if estimator == "k3" else {}
    term = TermConfig(loss="kl", options={"estimator": estimator, "reference": "base", **cap})
    assert_same(ours(term, sample), expected)
    assert (verl.kl_penalty(sample.logp, sample.ref_logp, "k3")[sample.mask > 0] == 10.0).any()


@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("threshold", [1.3, "0.5_1.3"])
def test_importance_weights(verl: Any, level: Any, threshold: Any) -> None:
    """A plain number truncates (TIS), two drop what is outside (IcePop)."""
    from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights

    sample = Sample.draw(1)
    expected, _ = compute_rollout_correction_weights(
        sample.logp - sample.old_logp, sample.mask, rollout_is=level, rollout_is_threshold=threshold
    )
    found = importance_weight(
        sample.logp, sample.old_logp, sample.mask, level=level, high=1.3,
        **({"correction": "truncate", "low": None} if threshold == 1.3 else {"correction": "mask", "low": 0.5}),
    )  # fmt: skip
    chosen = sample.mask > 0
    torch.testing.assert_close(found[chosen], expected[chosen])
    assert len(found[chosen].unique()) > 3


# -- advantages --------------------------------------------------------------------------------------------------------


def check(found: Any, expected: torch.Tensor, sample: Sample) -> None:
    chosen = np.asarray(sample.mask) > 0
    np.testing.assert_allclose(found[chosen], np.asarray(expected)[chosen], rtol=1e-4, atol=1e-5)
    assert np.abs(found[chosen]).max() > 0
    assert not found[~chosen].any()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scale", ["group", "none"])
def test_grpo_and_dr_grpo(verl: Any, seed: int, scale: str) -> None:
    """Unbiased deviation, verl's epsilon; the empty row is a member with reward 0 for both."""
    sample = Sample.draw(seed)
    expected, _ = verl.compute_grpo_outcome_advantage(
        sample.reward, sample.mask, np.array(GROUPS), epsilon=1e-6, norm_adv_by_std_in_grpo=scale == "group"
    )
    check(sample.credit(GROUPS, {"kind": "group", "scale": scale, "scale_eps": 1e-6}), expected, sample)


@pytest.mark.parametrize("seed", SEEDS)
def test_rloo(verl: Any, seed: int) -> None:
    sample = Sample.draw(seed)
    expected, _ = verl.compute_rloo_outcome_advantage(sample.reward, sample.mask, np.array(GROUPS))
    check(sample.credit(GROUPS, {"kind": "rloo"}), expected, sample)


@pytest.mark.parametrize("kind", ["group", "rloo"])
def test_alone_in_a_group_verl_keeps_the_reward_and_we_give_nothing(verl: Any, kind: str) -> None:
    sample, alone = Sample.draw(0), [str(row) for row in range(7)]
    function = verl.compute_grpo_outcome_advantage if kind == "group" else verl.compute_rloo_outcome_advantage
    expected, _ = function(sample.reward, sample.mask, np.array(alone))
    torch.testing.assert_close(expected, sample.reward.sum(-1, keepdim=True) * sample.mask, rtol=1e-5, atol=1e-6)
    assert not sample.credit(alone, {"kind": kind}).any()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_reinforce_pp(verl: Any, seed: int, gamma: float) -> None:
    """Returns are carried over observations, then whitened over all tokens."""
    from types import SimpleNamespace

    sample = Sample.draw(seed)
    expected, _ = verl.compute_reinforce_plus_plus_outcome_advantage(
        sample.reward, sample.mask, config=SimpleNamespace(gamma=gamma)
    )
    check(sample.credit(None, {"kind": "monte_carlo", "gamma": gamma, "normalise_batch": True}), expected, sample)


@pytest.mark.parametrize("seed", SEEDS)
def test_reinforce_pp_baseline(verl: Any, seed: int) -> None:
    sample = Sample.draw(seed)
    expected, _ = verl.compute_reinforce_plus_plus_baseline_outcome_advantage(
        sample.reward, sample.mask, np.array(GROUPS)
    )
    check(sample.credit(GROUPS, {"kind": "group", "scale": "none", "normalise_batch": True}), expected, sample)


@pytest.mark.parametrize("seed", SEEDS)
def test_remax(verl: Any, seed: int) -> None:
    sample = Sample.draw(seed)
    baseline = torch.from_numpy(np.random.default_rng(seed).normal(size=7))
    expected, _ = verl.compute_remax_outcome_advantage(sample.reward, baseline, sample.mask)
    check(sample.credit(None, {"kind": "remax"}, baseline=baseline.numpy()), expected, sample)


@pytest.mark.parametrize("seed", SEEDS)
def test_gae_over_observations(verl: Any, seed: int) -> None:
    """Values and advantages are carried over tokens that the policy did not sample; verl then whitens."""
    sample = Sample.draw(seed)
    expected, _ = verl.compute_gae_advantage_return(sample.reward, sample.value, sample.mask, 0.9, 0.8)
    config = {"kind": "gae", "gamma": 0.9, "lam": 0.8, "normalise_batch": True}
    check(sample.credit(None, config), expected, sample)


def test_the_kl_in_the_reward(verl: Any) -> None:
    from ludus.train.losses import kl

    sample = Sample.draw(0)
    expected = verl.compute_rewards(sample.reward, sample.old_logp, sample.ref_logp, 0.1)
    torch.testing.assert_close(
        sample.reward - 0.1 * kl(sample.old_logp, sample.ref_logp, estimator="k1").loss, expected
    )
