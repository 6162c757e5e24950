"""Advantages and learning-rate schedules of plugins: computed by both learners, refused where they cannot be right."""

from typing import Any

import numpy as np
import pytest

from ludus.config import AdvantageConfig, OptimizerConfig, TermConfig, build_config, resolve
from ludus.config.parts import ADVANTAGES, LOSSES, SCHEDULES
from ludus.errors import ConfigError, TrainError
from ludus.records import Experiences
from ludus.testing.experiences import sample_experiences
from ludus.train import compute, register_advantage, register_loss, register_schedule
from ludus.train.advantages import Credit, gae
from ludus.train.loss_inputs import Elements, LossInputs
from ludus.train.losses import find_loss
from ludus.train.objective import build_objective
from ludus.train.optimizers import learning_rate as jax_rate
from ludus.train.torch_state import learning_rate as torch_rate


@pytest.fixture(autouse=True)
def own_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    for registry in (ADVANTAGES, LOSSES, SCHEDULES):
        monkeypatch.setattr(registry, "added", {})


def halved(experiences: Experiences, *, lam: float) -> Credit:
    advantage, target = gae(experiences, lam=lam)
    return advantage / 2, target + 0 * advantage


def test_an_advantage_of_a_plugin_is_computed_with_its_options() -> None:
    register_advantage("halved", halved)
    batch = sample_experiences((4, 3), tokens=True)
    own = compute(batch, AdvantageConfig(kind="custom", name="halved", options={"lam": 0.5}))
    expected = gae(batch, lam=0.5)
    np.testing.assert_array_equal(own[0], expected[0] / 2)
    np.testing.assert_array_equal(own[1], expected[1])


def test_what_a_plugin_gives_outside_the_mask_does_not_count() -> None:
    register_advantage("ones", lambda experiences: (np.ones(experiences.step_count),) * 2)
    batch = sample_experiences((4, 3), tokens=True)
    for column in compute(batch, AdvantageConfig(kind="custom", name="ones")):
        np.testing.assert_array_equal(column, batch.steps["mask"].astype(np.float32))


@pytest.mark.parametrize("give", [lambda e: (np.ones(2),) * 2, lambda e: (e.steps["reward"],), lambda e: ()])
def test_an_advantage_of_another_size_stops_the_run_with_its_name(give: Any) -> None:
    register_advantage("wrong", give)
    with pytest.raises(TrainError, match=r"advantage wrong must give two columns of 6 numbers"):
        compute(sample_experiences((3, 1, 2)), AdvantageConfig(kind="custom", name="wrong"))


def test_an_advantage_of_a_plugin_needs_whole_episodes() -> None:
    register_advantage("halved", halved)
    values = {"name": "x", "games": ["pgx:tic_tac_toe"]}
    custom = "train.algorithm.advantage={kind: custom, name: halved, options: {lam: 0.5}}"
    assert resolve(build_config(values)).topology == "fused"
    assert resolve(build_config(values, [custom])).topology == "split"
    with pytest.raises(ConfigError, match="computed from recorded episodes, but topology is fused"):
        resolve(build_config(values, [custom, "topology=fused"]))


@pytest.mark.parametrize("progress", [0.0, 0.05, 0.1, 0.5, 1.0, 1.5])
def test_both_learners_follow_the_schedule_of_a_plugin_after_the_warm_up(progress: float) -> None:
    register_schedule(
        "squared", lambda done, *, final_fraction: final_fraction + (1 - final_fraction) * (1 - done) ** 2
    )
    config = OptimizerConfig(schedule="squared", learning_rate=0.5, final_fraction=0.1, warmup_fraction=0.1)
    done = min(max((progress - 0.1) / 0.9, 0.0), 1.0)
    expected = 0.5 * (progress / 0.1 if progress < 0.1 else 0.1 + 0.9 * (1 - done) ** 2)
    assert torch_rate(config, progress) == pytest.approx(expected)
    assert float(jax_rate(config, progress)) == pytest.approx(expected, rel=1e-5)


def test_a_loss_of_a_plugin_that_takes_the_mean_itself_is_refused() -> None:
    def averaged(inputs: Any, /) -> Elements:
        return Elements(loss=-(inputs.logp * inputs.advantage).mean())

    register_loss("averaged", averaged)
    column = np.ones(5)
    names = ("mask", "logp", "old_logp", "advantage", "value", "old_value", "target", "entropy")
    with pytest.raises(TrainError, match=r"loss averaged gave the shape \[\], expected .* \[5\]; leave the mean"):
        build_objective([TermConfig(loss="averaged")])(LossInputs(**dict.fromkeys(names, column)), 0.0)


def test_a_loss_of_a_plugin_is_found_with_its_options_and_sources() -> None:
    def mine(inputs: Any, /, *, scale: float = 1.0) -> Any:
        return inputs

    register_loss("mine", mine, sources=("expert",))
    assert find_loss("mine") is mine
    values = {"name": "x", "games": ["open_spiel:kuhn_poker"]}

    def problems(term: str) -> tuple[str, ...]:
        with pytest.raises(ConfigError) as refused:
            resolve(build_config(values, [f"train.algorithm.objective=[{term}]"]))
        return refused.value.problems

    place = "train.algorithm.objective.0"
    assert problems("{loss: mine, source: expert, options: {size: 2}}")[0] == (
        f"{place}.options.size: the loss mine has no such option; its options: scale"
    )
    assert f"{place}.source: the loss mine cannot learn from on_policy; write expert" in problems("{loss: mine}")


def test_what_is_no_function_is_refused() -> None:
    for register in (register_loss, register_advantage, register_schedule):
        with pytest.raises(ConfigError, match="expected a function"):
            register("mine", 3)  # type: ignore[arg-type]
