"""The losses that a config may name are those that the train room has, with the same options."""

from __future__ import annotations

import inspect

from ludus.config import ALGORITHMS, LOSS_OPTIONS
from ludus.train import losses


def test_config_and_train_know_the_same_losses() -> None:
    assert set(LOSS_OPTIONS) == set(losses.LOSSES)


def test_config_and_train_know_the_same_options() -> None:
    for name, function in losses.LOSSES.items():
        parameters = inspect.signature(function).parameters.values()
        keywords = {parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY}
        assert keywords == set(LOSS_OPTIONS[name]), name


def test_the_presets_use_options_that_their_losses_accept() -> None:
    for preset in ALGORITHMS.values():
        for term in preset.objective:
            assert all(LOSS_OPTIONS[term.loss][name].accepts(value) for name, value in term.options.items())
