"""Objectives that cannot be followed are refused, each with one line that says what to write."""

from __future__ import annotations

import pytest

from ludus.config import LOSS_OPTIONS, RunConfig, build_config, resolve
from ludus.config.sections.train_losses import LOSS_SOURCES
from ludus.errors import ConfigError

OBJECTIVE = "train.algorithm.objective"


def make(*overrides: str, words: bool = True) -> RunConfig:
    model = ("policy.model.path=models/tiny", "explore.group=4") if words else ()
    return build_config({"name": "x", "games": ["open_spiel:tic_tac_toe"]}, (*model, *overrides))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            [f"{OBJECTIVE}=[{{loss: ppo_clip, source: expert}}]"],
            f"{OBJECTIVE}.0.source: the loss ppo_clip cannot learn from expert; write on_policy",
        ),
        (
            [f"{OBJECTIVE}=[{{loss: sft, source: pairs}}]"],
            f"{OBJECTIVE}.0.source: the loss sft cannot learn from pairs; write on_policy or expert or any",
        ),
        (
            [f"{OBJECTIVE}=[{{loss: dpo}}]"],
            f"{OBJECTIVE}.0.source: the loss dpo cannot learn from on_policy; write pairs",
        ),
        (
            [f"{OBJECTIVE}=[{{loss: sft}}, {{loss: kl, source: any}}]"],
            f"{OBJECTIVE}.1.source: rows of any have no behaviour probabilities; "
            "write reference: base, or source: on_policy",
        ),
        (
            [f"{OBJECTIVE}=[{{loss: sft, source: expert, share: mu}}]"],
            f"{OBJECTIVE}.0.share: is mu, but train.algorithm.mu is not given; write mu: {{peak: 0.1}}, or no share",
        ),
        (
            ["train.algorithm={preset: grpo, mu: {peak: 0.2}}"],
            "train.algorithm.mu: has no effect: no term of train.algorithm.objective has a share",
        ),
        (
            ["train.algorithm={preset: mix, mu: {warmup_fraction: 0.5, decay_fraction: 0.75}}"],
            "train.algorithm.mu.decay_fraction: and train.algorithm.mu.warmup_fraction are 1.25 of the run together; "
            "write at most 1",
        ),
        (
            [f"{OBJECTIVE}=[{{loss: sft, source: expert, options: {{cutoff: 1.0}}}}]"],
            f"{OBJECTIVE}.0.options.cutoff: the loss sft expects a number > 0 and < 1 or null, got 1.0",
        ),
        (
            [f"{OBJECTIVE}=[{{loss: dpo, source: pairs, options: {{label_smoothing: -0.1}}}}]"],
            f"{OBJECTIVE}.0.options.label_smoothing: the loss dpo expects a number >= 0 and < 0.5, got -0.1",
        ),
        (
            [f"{OBJECTIVE}=[{{loss: topr, options: {{threshold: high}}}}]"],
            f'{OBJECTIVE}.0.options.threshold: the loss topr expects a number, got "high"',
        ),
        (
            ["train.algorithm={preset: grpo, advantage: {kind: group, baseline_shift: 0.5}}"],
            "train.algorithm.advantage.baseline_shift: has no effect: train.algorithm.advantage.kind is group",
        ),
        (
            ["train.algorithm={preset: opmd, advantage: {kind: opmd, tau: 0.5}}"],
            "train.algorithm.advantage.tau: has no effect: train.algorithm.advantage.baseline is mean",
        ),
    ],
)
def test_a_contradiction_is_one_line_that_says_what_to_write(changes: list[str], line: str) -> None:
    with pytest.raises(ConfigError) as refused:
        resolve(make(*changes))
    assert refused.value.problems == (line,)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            ["train.algorithm.kl_reward={weight: 0.1}"],
            "train.algorithm.kl_reward: is for language models; give policy.model, or leave it out",
        ),
        (
            ["train.algorithm.preset=grpo"],
            "train.algorithm.advantage.kind: group is for language models; give policy.model, or write gae, monte_carlo, vtrace or custom",
        ),
        (
            [f"{OBJECTIVE}=[{{loss: dpo, source: pairs}}]"],
            f"{OBJECTIVE}.0.loss: dpo is for language models; give policy.model, or write another loss",
        ),
        (
            [f"{OBJECTIVE}=[{{loss: kl, options: {{reference: base}}}}]"],
            f"{OBJECTIVE}.0.options.reference: base is for language models; give policy.model, or write behaviour",
        ),
        (
            [f"{OBJECTIVE}=[{{loss: reinforce, options: {{importance: mask}}}}]"],
            f"{OBJECTIVE}.0.options.importance: is for language models; give policy.model, or write none",
        ),
    ],
)
def test_what_a_network_on_boards_cannot_follow_is_refused(changes: list[str], line: str) -> None:
    with pytest.raises(ConfigError) as refused:
        resolve(make(*changes, words=False))
    assert refused.value.problems == (line,)


def test_the_sources_of_losses_are_those_of_losses_that_there_are() -> None:
    assert LOSS_SOURCES.keys() <= LOSS_OPTIONS.keys()


def test_a_number_may_be_whole_or_not_but_never_true() -> None:
    for value, fits in ((0, True), (-3, True), (0.5, True), (True, False), ("1", False)):
        assert LOSS_OPTIONS["topr"]["threshold"].accepts(value) == fits
