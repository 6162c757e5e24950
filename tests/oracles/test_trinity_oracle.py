"""Losses and advantages against Trinity-RFT 0.6.0: what no other oracle has, and where it is wrong.

`fetch_verl.py` says how to run them. Trinity counts rows with an empty mask; these samples have none.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from ludus.config import MuConfig, TermConfig
from ludus.train.objective import build_objective
from ludus.train.schedules import mu_at
from ludus.train.sources import EXPERT, ON_POLICY

from .conftest import Sample, aggregation_of, assert_same, ours, theirs

pytestmark = pytest.mark.filterwarnings("ignore")

SEEDS = [0, 1, 2]
FILLED = [0, 1, 3, 4, 5, 6]
MODES = {
    "token_mean": "token-mean",
    "sequence_mean_token_mean": "seq-mean-token-mean",
    "sequence_mean_token_sum": "seq-mean-token-sum",
}


@pytest.fixture(scope="module")
def trinity(outside: Path) -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import trinity.algorithm.policy_loss_fn.chord_policy_loss as chord

        return chord


def draw(seed: int, spread: float = 0.5) -> Sample:
    return Sample.draw(seed, spread=spread).of(FILLED)


def loss_of(function: Any, sample: Sample, **more: Any) -> Any:
    return theirs(
        lambda logp: function(
            logprob=logp, old_logprob=sample.old_logp, action_mask=sample.mask, advantages=sample.advantage, **more
        )[0],
        sample.logp,
    )


@pytest.mark.parametrize("how", MODES)
@pytest.mark.parametrize("seed", SEEDS)
def test_sft_and_its_weightings(trinity: Any, seed: int, how: str) -> None:
    sample, mode = draw(seed), MODES[how]
    cases = [
        (trinity.SFTLossFn(loss_agg_mode=mode), {}),
        (trinity.SFTISLossFn(loss_agg_mode=mode), {"weighting": "is"}),
        (trinity.SFTPhiLossFn(loss_agg_mode=mode), {"weighting": "phi"}),
        (trinity.SFTPhiLossFn(loss_agg_mode=mode, cutoff_prob=0.4), {"weighting": "phi", "cutoff": 0.4}),
    ]
    for function, options in cases:
        term = TermConfig(loss="sft", options=options)
        assert_same(ours(term, sample, how), loss_of(function, sample))


@pytest.mark.parametrize("seed", SEEDS)
def test_topr_at_the_level_of_tokens_sppo_opmd_and_plain_importance_sampling(trinity: Any, seed: int) -> None:
    from trinity.algorithm.policy_loss_fn.importance_sampling_policy_loss import ImportanceSamplingLossFn
    from trinity.algorithm.policy_loss_fn.opmd_policy_loss import OPMDPolicyLossFn
    from trinity.algorithm.policy_loss_fn.sppo_loss_fn import sPPOPolicyLossFn
    from trinity.algorithm.policy_loss_fn.topr_policy_loss import TOPRPolicyLossFn

    sample = draw(seed)
    cases: list[tuple[Any, str, dict[str, Any]]] = [
        (TOPRPolicyLossFn(), "topr", {"level": "token"}),
        (TOPRPolicyLossFn(advantage_threshold=0.5), "topr", {"level": "token", "threshold": 0.5}),
        (sPPOPolicyLossFn(epsilon=0.3), "sppo", {"epsilon": 0.3}),
        (OPMDPolicyLossFn(tau=2.0), "opmd", {"tau": 2.0}),
        (ImportanceSamplingLossFn(), "ppo_clip", {"clip_low": None, "clip_high": None}),
    ]
    for function, loss, options in cases:
        assert_same(ours(TermConfig(loss=loss, options=options), sample), loss_of(function, sample))


# -- MIX and CHORD -----------------------------------------------------------------------------------------------------

SOURCE = torch.tensor([ON_POLICY, EXPERT, ON_POLICY, ON_POLICY, EXPERT, ON_POLICY])


def mixed(weighting: str, how: str, mu: float) -> Any:
    terms = [
        TermConfig(loss="ppo_clip", share="rest", options={"dual_clip": 3.0}),
        TermConfig(loss="sft", source="expert", share="mu", options={"weighting": weighting}),
    ]
    return build_objective(terms, aggregation_of(how), MuConfig(peak=mu))


def of_trinity(function: Any, sample: Sample, parts: list[list[int]], **more: Any) -> Any:
    """One optimizer step: the micro-batches' losses, each divided by their number."""

    def step(logp: torch.Tensor) -> torch.Tensor:
        losses = [
            function(
                logp[rows], sample.old_logp[rows], sample.mask[rows], sample.advantage[rows],
                expert_mask=SOURCE[rows] == EXPERT, **{name: column[rows] for name, column in more.items()},
            )[0]
            for rows in parts
        ]  # fmt: skip
        return torch.stack(losses).sum() / len(parts)

    return theirs(step, sample.logp)


PARTS = [[[0, 1, 2, 3, 4, 5]], [[0, 1, 2], [3, 4, 5]], [[0, 1], [2, 4], [3, 5]]]


def sizes(parts: list[list[int]], mode: str) -> dict[str, Any]:
    return {
        "ppo_mini_batch_size": 6, "ppo_micro_batch_size_per_gpu": 6 // len(parts), "clip_range": 0.2,
        "train_batch_size_usual": 4, "train_batch_size_expert": 2, "loss_agg_mode": mode,
    }  # fmt: skip


def of_ours(weighting: str, how: str, sample: Sample) -> Any:
    objective = mixed(weighting, how, 0.3)
    return theirs(lambda logp: objective(sample.inputs(logp=logp, source=SOURCE), 0.5)[0], sample.logp)


@pytest.mark.parametrize("parts", PARTS, ids=["one", "two", "three"])
@pytest.mark.parametrize("seed", SEEDS)
def test_mix_is_the_means_over_the_rows_of_each_stream(trinity: Any, seed: int, parts: Any) -> None:
    """As the paper has it (every sequence alike by the mean of its tokens), however the minibatch is cut."""
    from trinity.algorithm.policy_loss_fn.mix_policy_loss import MIXPolicyLossFn

    sample = draw(seed)
    expected = of_trinity(MIXPolicyLossFn(mu=0.3, **sizes(parts, "seq-mean-token-mean")), sample, parts)
    assert_same(of_ours("none", "sequence_mean_token_mean", sample), expected)


@pytest.mark.parametrize("parts", PARTS[:2], ids=["one", "two"])
@pytest.mark.parametrize("weighting", ["none", "phi"])
@pytest.mark.parametrize("seed", SEEDS)
def test_chord_is_the_same_with_its_weighting(trinity: Any, seed: int, weighting: str, parts: Any) -> None:
    """Where every part has rows of both streams; without, theirs is not a number."""
    sample, step = draw(seed), torch.full((6,), 7)
    function = trinity.MIXCHORDPolicyLossFn(
        mu_peak=0.3, mu_valley=0.3, enable_phi_function=weighting == "phi", **sizes(parts, "seq-mean-token-mean")
    )
    expected = of_trinity(function, sample, parts, step=step)
    assert_same(of_ours(weighting, "sequence_mean_token_mean", sample), expected)


def test_with_token_means_trinity_weighs_micro_batches_by_rows_and_we_by_tokens(trinity: Any) -> None:
    """One micro-batch: the same. Several: theirs depends on how the minibatch was cut."""
    from trinity.algorithm.policy_loss_fn.mix_policy_loss import MIXPolicyLossFn

    sample = draw(0)
    one, two = (of_trinity(MIXPolicyLossFn(mu=0.3, **sizes(parts, "token-mean")), sample, parts) for parts in PARTS[:2])
    assert_same(of_ours("none", "token_mean", sample), one)
    assert two[0] != pytest.approx(one[0], rel=1e-3)


@pytest.mark.parametrize(("warmup", "decay"), [(0, 0), (20, 30), (0, 40), (25, 0), (50, 50)])
def test_mu_over_the_run(trinity: Any, warmup: int, decay: int) -> None:
    """Steps of a run of 100 as shares of it."""
    config = MuConfig(peak=0.9, valley=0.05, warmup_fraction=warmup / 100, decay_fraction=decay / 100)
    for step in range(101):
        expected = trinity.mu_schedule_function(step, warmup, decay, 0.9, 0.05)
        assert mu_at(config, step / 100) == pytest.approx(expected, abs=1e-9), step


# -- advantages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_opmd_and_asymre_advantages(trinity: Any, seed: int) -> None:
    from trinity.algorithm.advantage_fn.asymre_advantage import ASYMREGroupAdvantage
    from trinity.algorithm.advantage_fn.opmd_advantage import OPMDGroupAdvantage

    sample, groups = draw(seed), ["a"] * 6
    rewards = sample.reward.sum(-1)
    cases: list[tuple[Any, dict[str, Any]]] = [
        (OPMDGroupAdvantage(opmd_baseline="mean"), {"kind": "opmd"}),
        (OPMDGroupAdvantage(opmd_baseline="logavgexp", tau=0.5), {"kind": "opmd", "baseline": "logavgexp", "tau": 0.5}),
        (ASYMREGroupAdvantage(), {"kind": "asymre"}),
    ]
    for function, config in cases:
        rows = [
            SimpleNamespace(reward=float(reward), action_mask=mask)
            for reward, mask in zip(rewards, sample.mask, strict=True)
        ]
        scored, _ = function.calculate_group_advantage("a", rows)
        expected = torch.stack([row.advantages for row in scored])
        np.testing.assert_allclose(sample.credit(groups, config), expected, rtol=1e-4, atol=1e-5)


# -- where Trinity is wrong --------------------------------------------------------------------------------------------


def test_dpo_is_theirs_for_one_pair_and_the_mean_over_pairs_for_more(trinity: Any) -> None:
    from trinity.algorithm.policy_loss_fn.dpo_loss import DPOLossFn

    term = TermConfig(loss="dpo", source="pairs", options={"beta": 0.1, "label_smoothing": 0.1})
    function = DPOLossFn(beta=0.1, label_smoothing=0.1)

    def mine(sample: Sample) -> Any:
        rows = torch.arange(len(sample.mask))
        labels = {"source": torch.full_like(rows, 2), "partner": rows ^ 1, "chosen": rows % 2 == 0}
        return ours(term, sample, **labels)

    def other(sample: Sample) -> Any:
        return theirs(lambda logp: function(logp, sample.ref_logp, sample.mask)[0], sample.logp)

    sample = draw(0)
    pairs = [sample.of([row, row + 1]) for row in (0, 2, 4)]
    for pair in pairs:
        assert_same(mine(pair), other(pair))
    found = mine(sample)
    assert found[0] == pytest.approx(np.mean([other(pair)[0] for pair in pairs]))
    assert other(sample)[0] != pytest.approx(found[0], rel=1e-2)


def test_sapo_of_trinity_has_another_gradient(trinity: Any) -> None:
    from trinity.algorithm.policy_loss_fn.sapo_policy_loss import SAPOPolicyLossFn

    sample = draw(0)
    sample = Sample(**{**vars(sample), "old_logp": sample.logp})
    found, expected = ours(TermConfig(loss="sapo"), sample), loss_of(SAPOPolicyLossFn(), sample)
    torch.testing.assert_close(
        expected[1], found[1] * torch.where(sample.advantage > 0, 2.0, 2.0 / 1.05), rtol=1e-5, atol=1e-8
    )
