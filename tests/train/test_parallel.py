"""Several trainers as one: the same result, and nobody is left behind when one is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ludus.config import (
    ALGORITHMS,
    AlgorithmConfig,
    GameChoice,
    LanguageModelConfig,
    LoraConfig,
    OptimizerConfig,
    PolicyConfig,
    RunConfig,
    RuntimeConfig,
    TermConfig,
    TrainConfig,
)
from ludus.errors import WorkerError
from ludus.lm.language_models import LanguageModel
from ludus.train.learners import make_learner
from ludus.train.parallel import ParallelLearner

from .conftest import mixed_experiences, token_experiences


def config(path: str, trainers: int, **train: Any) -> RunConfig:
    """PPO with all that is summed or scored beforehand: a critic, importance weights, a reference, experts, pairs."""
    term = {"importance": "truncate"}
    objective = (
        TermConfig(loss="ppo_clip", options=dict(term)),
        TermConfig(loss="value"),
        TermConfig(loss="kl", weight=0.05, options={"reference": "base"}),
        TermConfig(loss="sft", weight=0.5, source="expert"),
        TermConfig(loss="dpo", weight=0.5, source="pairs"),
    )
    settings = {
        "algorithm": AlgorithmConfig(advantage=ALGORITHMS["ppo"].advantage, objective=objective),
        "optimizer": OptimizerConfig(kind="sgd", learning_rate=0.1, schedule="constant"),
        "minibatch": 5,
        "epochs": 2,
        **train,
    }
    model = LanguageModelConfig(path=path, lora=LoraConfig(rank=2))
    return RunConfig(
        name="test",
        games=(GameChoice(key="open_spiel:tic_tac_toe"),),
        policy=PolicyConfig(model=model),
        train=TrainConfig(trainers=trainers, **settings),
        runtime=RuntimeConfig(stall_s=60.0),
    )


def shape(path: str) -> dict[str, Any]:
    model = LanguageModelConfig(path=path, lora=LoraConfig(rank=2))
    return {"model": model.model_dump(mode="json"), "critic": True, "games": ["open_spiel:tic_tac_toe"]}


@pytest.fixture(scope="module")
def two(tiny: LanguageModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ParallelLearner]:
    """Started once: a helper takes seconds to load PyTorch."""
    scratch = tmp_path_factory.mktemp("scratch")
    learner = make_learner(config(tiny.path, 2), shape(tiny.path), scratch=scratch)
    assert isinstance(learner, ParallelLearner)
    assert list(scratch.iterdir()) == [], "the place where they met is not needed any more"
    yield learner
    learner.close()


def test_two_trainers_give_the_result_of_one(tiny: LanguageModel, two: ParallelLearner) -> None:
    """Over two updates, one of them with all sources and an odd sequence out, and after a state was loaded."""
    one = make_learner(config(tiny.path, 1), shape(tiny.path))
    alone, together = one.init(3), two.init(3)
    batches = (mixed_experiences(8, 3, 2, turns=2), token_experiences(rows=1, turns=2, seed=1))
    for number, batch in enumerate(batches):
        alone, expected = one.train_batch(alone, batch, number, 0.25)
        together, found = two.train_batch(together, batch, number, 0.25)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert found[name] == pytest.approx(value, rel=1e-3, abs=1e-5), name
        together = two.state_from_tensors(two.state_tensors(together))
    for name, tensor in one.state_tensors(alone)["weights"].items():
        np.testing.assert_allclose(two.state_tensors(together)["weights"][name], tensor, rtol=0, atol=1e-5)


def test_a_helper_ends_with_its_trainer(two: ParallelLearner) -> None:
    helper = two._helpers.processes[0]
    assert helper.stdin is not None
    helper.stdin.close()  # as the system does when the process that holds it ends, however it ends
    assert helper.wait(30) == 1


def test_a_trainer_whose_helper_was_killed_ends_too_to_be_started_again(two: ParallelLearner) -> None:
    """The helper of the test before is gone; what a running update sees when that happens is the same."""
    with pytest.raises(SystemExit):
        two.train_batch(two.init(0), token_experiences(), 1, 0.0)


def test_a_helper_that_cannot_start_is_named(tiny: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ludus.train.helper_processes.HELPER", "ludus.no_such_module")
    with pytest.raises(WorkerError, match="trainer 1 of 2 did not start"):
        make_learner(config(tiny.path, 2), shape(tiny.path))
