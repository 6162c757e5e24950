"""A critic's values do not depend on how many states it judges at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ludus.errors import ConfigError
from ludus.lm.weights import read_critic

CPU = torch.device("cpu")


@pytest.mark.parametrize("width", [32, 64, 128, 576, 1000])
def test_each_state_has_the_same_value_in_any_company(width: int) -> None:
    rng = np.random.default_rng(width)
    weight, bias = rng.normal(size=(1, width)).astype(np.float32), np.array([0.5], np.float32)
    critic = read_critic({"value_head.weight": weight, "value_head.bias": bias}, width=width, device=CPU)
    assert critic is not None
    states = torch.from_numpy(rng.normal(size=(70, width)).astype(np.float32))
    values = critic.judge(states)
    np.testing.assert_allclose(values, states.numpy() @ weight[0] + 0.5, atol=1e-4)
    for count in (1, 2, 3, 4, 5, 33):
        for start in (0, 7):
            assert critic.judge(states[start : start + count]).tobytes() == values[start : start + count].tobytes()


def test_a_version_without_a_critic_has_none() -> None:
    assert read_critic({}, width=8, device=CPU) is None


def test_a_critic_of_another_width_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"value_head\.weight has shape \[1, 9\], the model needs \[1, 8\]"):
        read_critic({"value_head.weight": np.zeros((1, 9), np.float32)}, width=8, device=CPU)
