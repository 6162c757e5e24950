"""When steps are skipped, the error names the row, the loss or the network's output that was not finite first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.train.test_jax_learner import experiences, learner

from ludus.config import AdvantageConfig, AlgorithmConfig, TermConfig, TrainConfig
from ludus.config.parts import ADVANTAGES, LOSSES
from ludus.errors import TrainError
from ludus.records import Experiences
from ludus.testing.experiences import sample_experiences
from ludus.train import compute, register_advantage, register_loss
from ludus.train.health import NOT_FINITE, checked, not_finite_row
from ludus.train.loaders import check_rows, refuse_other_than_rows
from ludus.train.loss_inputs import Elements


@pytest.fixture(autouse=True)
def own_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    for registry in (ADVANTAGES, LOSSES):
        monkeypatch.setattr(registry, "added", {})


def config(*losses: str) -> TrainConfig:
    return TrainConfig(
        max_skipped=3, algorithm=AlgorithmConfig(objective=tuple(TermConfig(loss=name) for name in losses))
    )


def failing(*flagged: str, losses: tuple[str, ...] = ("ppo_clip", "value"), row: str = "") -> str:
    metrics = {"skipped_in_a_row": 3.0, **{f"{NOT_FINITE}{name}": 1.0 for name in flagged}}
    with pytest.raises(TrainError, match=r"^the last 3 optimizer steps were skipped: ") as raised:
        checked(metrics, config(*losses), lambda: row)
    return str(raised.value)


def test_a_learning_rate_is_blamed_only_where_inputs_are_finite() -> None:
    register_loss("mine", lambda inputs: Elements(loss=inputs.logp))
    own = ("mine", "value")
    assert "network's output is not finite, although the rows are: lower train" in failing("entropy", "loss")
    assert "the loss value is not finite, although the rows are: lower train" in failing("value", "loss")
    assert "the gradient is not finite, although every loss is: lower train" in failing("grad_norm")
    assert "the loss mine is not finite" in failing("mine", "loss", losses=own)
    assert "learning_rate" not in failing("mine", "loss", losses=own)
    assert "root or a division by 0 in mine, or lower" in failing("grad_norm", losses=own)
    assert failing("mine", losses=own, row="advantage is nan in row 3 of the batch").endswith("row 3 of the batch")


def test_flags_never_leave_the_learner() -> None:
    metrics = {"skipped_in_a_row": 2.0, "loss": 0.5, f"{NOT_FINITE}loss": 1.0}
    assert checked(metrics, config("ppo_clip")) == {"skipped_in_a_row": 2.0, "loss": 0.5}


def test_the_first_number_that_is_not_finite_is_named_by_column_and_row() -> None:
    steps: dict[str, Any] = {
        "observation": np.zeros((4, 2, 3), np.float32),
        "advantage": np.array([0.0, np.inf, np.nan, 0.0], np.float32),
    }
    assert not_finite_row(steps) == "advantage is inf in row 1 of the batch"
    assert not_finite_row(steps, np.array([1.0, 0.0, 1.0, 1.0])) == "advantage is nan in row 2 of the batch"
    steps["observation"][3, 1, 2] = np.nan
    assert not_finite_row(steps) == "observation is nan in row 3 of the batch, place [1, 2]"
    assert not_finite_row({"observation": np.array([[7]], np.uint8)}) == ""


def test_a_loss_of_a_plugin_that_is_nan_is_named_by_the_learner() -> None:
    register_loss("broken", lambda inputs: Elements(loss=inputs.logp * float("nan")))
    of = learner(policy_loss="broken")
    found = experiences([64])
    state, metrics = of.train_batch(of.init(0), found, seed=0, progress=0.0)
    assert not any(name.startswith(NOT_FINITE) for name in metrics)
    with pytest.raises(TrainError, match="the loss broken is not finite, although the rows"):
        of.train_batch(state, found, seed=0, progress=0.0)


def test_an_advantage_of_a_plugin_that_is_nan_is_named_with_its_step() -> None:
    hole = np.array([0.0, 0.0, np.nan, 0.0])
    register_advantage("hole", lambda rows: (hole, np.zeros(4)))
    with pytest.raises(TrainError, match="advantage hole: its advantage is nan at step 2 of 4"):
        compute(sample_experiences((4,)), AdvantageConfig(kind="custom", name="hole"))


def test_a_loss_of_a_plugin_that_gives_no_elements_is_refused_by_name() -> None:
    register_loss("bare", lambda inputs: inputs.logp)
    of = learner(policy_loss="bare")
    with pytest.raises(TrainError, match=r"loss bare gave an array, expected Elements\(loss=...\)"):
        of.train_batch(of.init(0), experiences([64]), seed=0, progress=0.0)


def test_rows_of_a_loader_that_are_not_finite_are_named() -> None:
    rows = sample_experiences((3,))
    rows.steps["reward"][1] = np.nan
    shape = {"observation_shape": rows.steps["observation"].shape[1:], "actions": 3, "games": ["mine"]}
    with pytest.raises(TrainError, match="the loader's reward is nan in row 1 of the batch"):
        check_rows(rows, shape)


def test_what_a_loader_gives_instead_of_rows_is_named() -> None:
    rows = sample_experiences((3,))
    refuse_other_than_rows(rows)
    with pytest.raises(TrainError, match=r"next\(\) gave a dict, expected Experiences"):
        refuse_other_than_rows({"action": 1})
    short = Experiences(sequences=rows.sequences, offsets=rows.offsets, steps={**rows.steps, "value": np.zeros(1)})
    with pytest.raises(TrainError, match="the loader's value has 1 rows, the offsets end at 3"):
        refuse_other_than_rows(short)
    fewer = {name: column for name, column in rows.steps.items() if name != "logp"}
    with pytest.raises(TrainError, match="the loader's steps lack logp"):
        refuse_other_than_rows(Experiences(sequences=rows.sequences, offsets=rows.offsets, steps=fewer))
