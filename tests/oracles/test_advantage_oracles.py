"""Advantages against independent implementations: Stable-Baselines3's rollout buffer and rlax."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from gymnasium import spaces
from tests.train.time_major import gae_time_major

from ludus.config import AdvantageConfig
from ludus.records import Experiences
from ludus.train.advantages import gae, monte_carlo, vtrace

T, N = 17, 5


@pytest.fixture(scope="module")
def rlax() -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("rlax", reason="rlax is an oracle only; pip install rlax==0.1.9")


@pytest.fixture(scope="module")
def rollout() -> dict[str, Any]:
    random = np.random.default_rng(0)
    return {
        "reward": random.normal(size=(T, N)).astype(np.float32),
        "value": random.normal(size=(T, N)).astype(np.float32),
        "done": random.random((T, N)) < 0.2,
        "last_value": random.normal(size=N).astype(np.float32),
        "log_ratio": random.normal(scale=0.7, size=(T, N)).astype(np.float32),
    }


def ragged(reward: np.ndarray, value: np.ndarray, bootstrap: np.ndarray, logp: np.ndarray) -> Experiences:
    """Every column of `[T, N]` as one truncated sequence that goes on from `bootstrap`."""
    length, count = reward.shape
    return Experiences(
        sequences={"truncated": np.ones(count, bool), "bootstrap_value": bootstrap},
        offsets=np.arange(count + 1, dtype=np.int64) * length,
        steps={
            "reward": reward.T.ravel(),
            "value": value.T.ravel(),
            "logp": logp.T.ravel(),
            "mask": np.ones(reward.size, bool),
        },
    )


def stable_baselines(r: dict[str, Any], gamma: float, lam: float) -> tuple[np.ndarray, np.ndarray]:
    from stable_baselines3.common.buffers import RolloutBuffer

    space = spaces.Box(-1, 1, (1,))
    buffer = RolloutBuffer(T, space, spaces.Discrete(2), device="cpu", gae_lambda=lam, gamma=gamma, n_envs=N)
    started = np.zeros(N, bool)
    for t in range(T):
        value = torch.from_numpy(r["value"][t])
        buffer.add(np.zeros((N, 1)), np.zeros((N, 1)), r["reward"][t], started, value, torch.zeros(N))
        started = r["done"][t]
    buffer.compute_returns_and_advantage(torch.from_numpy(r["last_value"]), started)
    return buffer.advantages, buffer.returns


@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 0.95), (0.9, 0.5), (0.99, 1.0), (0.9, 0.0)])
def test_one_seat_is_credited_as_by_stable_baselines(rollout: dict[str, Any], gamma: float, lam: float) -> None:
    advantage, returns = stable_baselines(rollout, gamma, lam)
    nobody_else = np.zeros((T, N), np.int32)
    mine = gae_time_major(
        rewards=rollout["reward"][..., None],
        value=rollout["value"],
        seat=nobody_else,
        done=rollout["done"],
        last_value=rollout["last_value"],
        last_seat=nobody_else[0],
        config=AdvantageConfig(gamma=gamma, lam=lam),
        alternate=False,
    )
    np.testing.assert_allclose(mine[0], advantage, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mine[1], returns, rtol=1e-4, atol=1e-5)


def test_ragged_gae_is_that_of_rlax(rlax: ModuleType, rollout: dict[str, Any]) -> None:
    batch = ragged(rollout["reward"], rollout["value"], rollout["last_value"], np.zeros((T, N), np.float32))
    advantage, _ = gae(batch, gamma=0.9, lam=0.8)
    values = np.concatenate([rollout["value"], rollout["last_value"][None]])
    for n in range(N):
        theirs = rlax.truncated_generalized_advantage_estimation(
            jnp.asarray(rollout["reward"][:, n]), jnp.full(T, 0.9), 0.8, jnp.asarray(values[:, n])
        )
        np.testing.assert_allclose(advantage[n * T : (n + 1) * T], theirs, rtol=1e-4, atol=1e-5)


def test_ragged_returns_are_those_of_rlax(rlax: ModuleType, rollout: dict[str, Any]) -> None:
    batch = ragged(rollout["reward"], rollout["value"], np.zeros(N, np.float32), np.zeros((T, N), np.float32))
    returns, _ = monte_carlo(batch, gamma=0.9)
    for n in range(N):
        theirs = rlax.discounted_returns(jnp.asarray(rollout["reward"][:, n]), jnp.full(T, 0.9), jnp.zeros(T))
        np.testing.assert_allclose(returns[n * T : (n + 1) * T], theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lam", [1.0, 0.8])
def test_vtrace_is_that_of_rlax(rlax: ModuleType, rollout: dict[str, Any], lam: float) -> None:
    r = rollout
    behaviour = np.zeros((T, N), np.float32)
    advantage, target = vtrace(
        ragged(r["reward"], r["value"], r["last_value"], behaviour), r["log_ratio"].T.ravel(), gamma=0.9, lam=lam
    )
    following = np.concatenate([r["value"][1:], r["last_value"][None]])
    oracle = jax.vmap(lambda v, v_next, reward, rho: rlax.vtrace_td_error_and_advantage(
        v, v_next, reward, jnp.full(T, 0.9), rho, lambda_=lam
    ), in_axes=1, out_axes=1)  # fmt: skip
    theirs = oracle(*(jnp.asarray(x) for x in (r["value"], following, r["reward"], np.exp(r["log_ratio"]))))
    wanted = (np.asarray(theirs.pg_advantage), np.asarray(theirs.errors) + r["value"])
    for mine, want in zip((advantage, target), wanted, strict=True):
        np.testing.assert_allclose(mine.reshape(N, T).T, want, rtol=1e-4, atol=1e-4)
