"""What the trainer does where an inference server writes: it scores the probe, and computes the values of its critic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ludus.lm.language_models import LanguageModel
from ludus.lm.probe import Probe
from ludus.train.torch_learner import TorchLearner

from .conftest import token_experiences
from .test_torch_learner import WAYS, assert_same, config


@pytest.mark.parametrize("lora", WAYS)
def test_the_probe_is_what_the_weights_think_of_it(tiny: LanguageModel, lora: Any) -> None:
    of = TorchLearner(tiny, config("reinforce"), lora=lora, has_server=True)
    state = of.init(0)
    first = Probe.from_json(of.probe(state))
    with torch.inference_mode():
        table = torch.log_softmax(tiny.model(torch.tensor([first.tokens])).logits[0, :-1], dim=-1)
    expected = [float(table[place, token]) for place, token in enumerate(first.tokens[1:])]
    assert first.logps == pytest.approx(expected, abs=1e-4)
    assert first.distance(expected) < 1e-4
    assert not TorchLearner(tiny, config("reinforce"), lora=lora).probe(state)
    of.train_batch(state, token_experiences(), seed=1, progress=0.0)
    assert first.distance(Probe.from_json(of.probe(state)).logps) > 1e-3


def test_scoring_the_probe_changes_nothing(tiny: LanguageModel) -> None:
    found = []
    for probes in (False, True):
        of = TorchLearner(tiny, config("reinforce"), lora=None, has_server=probes)
        state = of.init(0)
        for seed in range(2):
            if probes:
                of.probe(state)
            state, _ = of.train_batch(state, token_experiences(), seed=seed, progress=0.0)
        found.append(of.state_tensors(state))
    assert_same(*found)


@pytest.mark.parametrize("preset", ["ppo", "a2c"])
def test_values_that_no_engine_gives_are_those_of_the_critic(tiny: LanguageModel, preset: str) -> None:
    """Rows with the critic's own values train as rows without, whose values are computed here."""
    of = TorchLearner(tiny, config(preset), lora=None)
    state, _ = of.train_batch(of.init(0), token_experiences(), seed=0, progress=0.0)
    tensors = of.state_tensors(state)
    batch = token_experiences()
    values = of._credit._evaluate(batch, np.ones(len(batch), bool), of._weights_of(state), 10_000)[1]
    assert np.abs(values[batch.steps["mask"]]).max() > 1e-3
    results = []
    for has_server, column in ((False, values), (True, np.zeros_like(values))):
        other = TorchLearner(tiny, config(preset), lora=None, has_server=has_server)
        begun = other.state_from_tensors(tensors)
        trained, metrics = other.train_batch(begun, batch.replace(steps={"value": column}), seed=1, progress=0.0)
        results.append((other.state_tensors(trained), metrics["loss"]))
    assert results[0][1] == pytest.approx(results[1][1], rel=1e-4)
    for name, tensor in results[0][0]["weights"].items():
        np.testing.assert_allclose(tensor, results[1][0]["weights"][name], rtol=0, atol=1e-4, err_msg=name)
