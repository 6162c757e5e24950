"""Several trainers of a network as one: the same update whatever the preset, and nobody is left behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import msgspec
import numpy as np
import pytest

from ludus.config import (
    AdvantageConfig,
    AlgorithmConfig,
    GameChoice,
    MlpConfig,
    OptimizerConfig,
    RunConfig,
    RuntimeConfig,
    TrainConfig,
    fill_defaults,
)
from ludus.errors import WorkerError
from ludus.policies import PolicyShape
from ludus.records import Experiences
from ludus.train.jax_parallel import ParallelJaxLearner
from ludus.train.jax_share import JaxShare, respond
from ludus.train.learners import Learner, make_learner, make_network_learner

from .test_jax_learner import ACTIONS, FEATURES, experiences

SHAPE = PolicyShape(
    network=MlpConfig(hidden=(8,)),
    observation_shape=(FEATURES,),
    actions=ACTIONS,
    layout="channels_last",
    games=("pgx:connect_four",),
).to_json()
SGD = OptimizerConfig(kind="sgd", learning_rate=0.5, schedule="constant")
"""What the gradient is, the weights show; Adam would make differences of rounding as large as any other."""


def config(trainers: int, preset: Any = "ppo", *, algorithm: Mapping[str, Any] = {}, **train: Any) -> RunConfig:
    settings = {"minibatch": 16, "epochs": 2, "optimizer": SGD, **train}
    return fill_defaults(
        RunConfig(
            name="test",
            topology="split",
            games=(GameChoice(key="pgx:connect_four"),),
            train=TrainConfig(trainers=trainers, algorithm=AlgorithmConfig(preset=preset, **algorithm), **settings),
            runtime=RuntimeConfig(stall_s=60.0),
        )
    )


def batch(lengths: list[int], seed: int = 0, *, experts: bool = False) -> Experiences:
    rows = experiences(lengths, seed, all_chosen=False)
    groups = {"group": np.array([f"g{number % 2}" for number in range(len(lengths))], object)}
    if experts:
        groups["source"] = np.array(
            ["expert" if number % 3 == 1 else "on_policy" for number in range(len(lengths))], object
        )
    return rows.replace(sequences=groups)


class Neighbours:
    """The other trainers in this process: the same messages and shares, without what starting processes takes."""

    def __init__(self, of: RunConfig) -> None:
        size = of.train.trainers
        learner = make_network_learner(of, SHAPE)
        self._shares = [JaxShare(learner, of.train, rank=rank, size=size) for rank in range(1, size)]
        self._said: list[bytes | None] = []

    def await_ready(self) -> None: ...

    def say(self, message: msgspec.Struct, blob: bytes) -> None:
        self._said = [respond(share, message, memoryview(blob)) for share in self._shares]

    def answers(self) -> Iterator[np.ndarray[Any, Any]]:
        for said in self._said:
            assert said is not None
            yield np.frombuffer(said, np.float32)

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None: ...


def assert_alike(together: Learner, alone: Learner, batches: Sequence[Experiences]) -> float:
    """The same weights to 1e-6 and the same metrics, over several updates; how many of them the KL stopped."""
    ours, theirs = together.init(3), alone.init(3)
    before, stops = alone.state_tensors(theirs)["weights"], 0.0
    for number, rows in enumerate(batches):
        ours, found = together.train_batch(ours, rows, number, 0.25)
        theirs, expected = alone.train_batch(theirs, rows, number, 0.25)
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)
        stops += expected["kl_stopped"]
    weights = together.state_tensors(ours)["weights"]
    for name, tensor in alone.state_tensors(theirs)["weights"].items():
        np.testing.assert_allclose(weights[name], tensor, rtol=0, atol=1e-6, err_msg=name)
    assert any((tensor != before[name]).any() for name, tensor in weights.items())
    return stops


SLOW = pytest.mark.slow
VTRACE = {"advantage": AdvantageConfig(kind="vtrace")}


@pytest.mark.parametrize(
    ("trainers", "preset", "more"),
    [
        pytest.param(3, "mix", {"accumulate": 2, "algorithm": {"kl_stop": 0.08}}, marks=SLOW),
        pytest.param(2, "a2c", {"minibatch": 7, "algorithm": VTRACE}, marks=SLOW),
        (2, "ppo", {}),
        pytest.param(3, "ppo", {"minibatch": 5, "epochs": 3}, marks=SLOW),
        pytest.param(2, "reinforce", {"minibatch": 5}, marks=SLOW),
        pytest.param(2, "reinforce_pp", {}, marks=SLOW),
        pytest.param(2, "topr", {}, marks=SLOW),
        pytest.param(2, "grpo", {}, marks=SLOW),
        pytest.param(2, "sft", {}, marks=SLOW),
    ],
)
def test_several_trainers_give_the_update_of_one(trainers: int, preset: str, more: dict[str, Any]) -> None:
    """Batches that no number of trainers divides, one of them with fewer rows than there are trainers."""
    experts = preset in ("sft", "mix")
    batches = [batch([7, 5, 9, 12], experts=experts), batch([2, 1], 1, experts=experts)]
    of = config(trainers, preset, **more)
    together = ParallelJaxLearner(of, SHAPE, Neighbours(of))
    stops = assert_alike(together, make_learner(config(1, preset, **more), SHAPE), batches)
    assert stops == (1.0 if "kl_stop" in more.get("algorithm", {}) else 0.0)


# -- real processes ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two() -> Iterator[ParallelJaxLearner]:
    """Started once: a helper takes seconds to load JAX."""
    learner = make_learner(config(2, optimizer=OptimizerConfig()), SHAPE)
    assert isinstance(learner, ParallelJaxLearner)
    yield learner
    learner.close()


def test_two_processes_give_the_update_of_one_and_the_same_bits_when_they_do_it_again(two: ParallelJaxLearner) -> None:
    """Also from a state that was saved and loaded, as a run that goes on does."""
    rows, more = batch([7, 5, 9, 12]), batch([30], 1)
    first, _ = two.train_batch(two.init(0), rows, 1, 0.0)
    saved = two.state_tensors(first)
    second, _ = two.train_batch(first, more, 2, 0.5)
    resumed, _ = two.train_batch(two.state_from_tensors(saved), more, 2, 0.5)
    again, _ = two.train_batch(two.train_batch(two.init(0), rows, 1, 0.0)[0], more, 2, 0.5)
    for part, tensors in two.state_tensors(second).items():
        for name, tensor in tensors.items():
            np.testing.assert_array_equal(two.state_tensors(resumed)[part][name], tensor)
            np.testing.assert_array_equal(two.state_tensors(again)[part][name], tensor)
    assert_alike(two, make_learner(config(1, optimizer=OptimizerConfig()), SHAPE), [rows])


def test_a_bad_row_costs_its_minibatch_whoever_has_it(two: ParallelJaxLearner) -> None:
    rows = batch([20, 20])
    rows.steps["observation"][3] = np.nan
    rows.steps["mask"][3] = True
    state, metrics = two.train_batch(two.init(0), rows, 1, 0.0)
    assert metrics["skipped"] == 2.0
    assert all(np.isfinite(tensor).all() for tensor in two.state_tensors(state)["weights"].values())


def test_a_batch_of_nothing_changes_nothing(two: ParallelJaxLearner) -> None:
    rows = batch([3])
    rows.steps["mask"][:] = False
    state, metrics = two.train_batch(two.init(0), rows, 1, 0.0)
    assert metrics["optimizer_steps"] == 0.0
    for name, tensor in two.state_tensors(two.init(0))["weights"].items():
        np.testing.assert_array_equal(two.state_tensors(state)["weights"][name], tensor)


def test_a_helper_ends_with_its_trainer(two: ParallelJaxLearner) -> None:
    helper = two.helpers.helpers.processes[0]  # type: ignore[attr-defined]
    assert helper.stdin is not None
    helper.stdin.close()  # as the system does when the process that holds it ends, however it ends
    assert helper.wait(30) == 1


def test_a_trainer_whose_helper_was_killed_ends_too_to_be_started_again(two: ParallelJaxLearner) -> None:
    """The helper of the test before is gone; what a running update sees when that happens is the same."""
    with pytest.raises(SystemExit):
        two.train_batch(two.init(0), batch([7, 5]), 1, 0.0)


def test_a_helper_that_cannot_start_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ludus.train.helper_processes.HELPER", "ludus.no_such_module")
    with pytest.raises(WorkerError, match="trainer 1 of 2 did not start"):
        make_learner(config(2), SHAPE)
