"""Advantages over rollouts in which seats take turns: NumPy against first principles, the device against NumPy."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ludus.config import AdvantageConfig
from ludus.train.device_advantages import gae_on_device

from .time_major import gae_time_major

T, N = 23, 6


def rollout(players: int, seed: int = 0, *, in_turn: bool = False, zero_sum: bool = False) -> dict[str, Any]:
    """A random rollout: any seat may act at any time, episodes end now and then."""
    random = np.random.default_rng(seed)
    seat = random.integers(players, size=(T + 1, N))
    if in_turn:
        seat = (np.arange(T + 1)[:, None] + np.zeros((1, N), int)) % players
    rewards = random.normal(size=(T, N, players))
    if zero_sum:
        rewards[..., 1] = -rewards[..., 0]
    return {
        "rewards": rewards.astype(np.float32),
        "value": random.normal(size=(T, N)).astype(np.float32),
        "seat": seat[:T].astype(np.int32),
        "done": random.random((T, N)) < 0.15,
        "last_value": random.normal(size=N).astype(np.float32),
        "last_seat": seat[T].astype(np.int32),
    }


def plain_seat_gae(r: dict[str, Any], n: int, seat: int, gamma: float, lam: float) -> dict[int, float]:
    """One seat's chain in one game, written out: decisions, what it got in between, and what follows."""
    found: dict[int, float] = {}
    decisions = [t for t in range(T) if r["seat"][t, n] == seat]
    for place in reversed(range(len(decisions))):
        t = decisions[place]
        stop = decisions[place + 1] if place + 1 < len(decisions) else T
        ends = [k for k in range(t, stop) if r["done"][k, n]]
        got = r["rewards"][t : (ends[0] + 1 if ends else stop), n, seat].sum()
        ahead, following = 0.0, 0.0
        if not ends and stop < T:
            ahead, following = r["value"][stop, n], found[stop]
        elif not ends:
            ahead = r["last_value"][n] if r["last_seat"][n] == seat else r["value"][t, n]
        found[t] = got + gamma * ahead - r["value"][t, n] + gamma * lam * following
    return found


@pytest.mark.parametrize("players", [1, 2, 3, 5])
def test_each_seat_has_its_own_chain_whatever_the_order_of_play(players: int) -> None:
    r = rollout(players, seed=players)
    config = AdvantageConfig(gamma=0.9, lam=0.8)
    advantage, target = gae_time_major(**r, config=config, alternate=False)
    for n in range(N):
        for seat in range(players):
            for t, expected in plain_seat_gae(r, n, seat, 0.9, 0.8).items():
                assert advantage[t, n] == pytest.approx(expected, abs=1e-5)
    np.testing.assert_allclose(target - advantage, r["value"], atol=1e-6)


def test_seats_that_do_not_move_at_the_cut_may_bring_their_own_value() -> None:
    r = rollout(3, seed=9)
    r["done"][:] = False
    every = np.random.default_rng(4).normal(size=(N, 3)).astype(np.float32)
    r["last_value"] = every
    advantage, _ = gae_time_major(**r, config=AdvantageConfig(gamma=1.0, lam=1.0), alternate=False)
    for n in range(N):
        for seat in range(3):
            decisions = np.flatnonzero(r["seat"][:, n] == seat)
            if len(decisions):
                t = decisions[-1]
                got = r["rewards"][t:, n, seat].sum()
                assert advantage[t, n] == pytest.approx(got + every[n, seat] - r["value"][t, n], abs=1e-5)


def test_alternation_turns_the_sign_and_the_same_mover_keeps_it() -> None:
    config = AdvantageConfig(gamma=1.0, lam=0.5)
    r = {
        "rewards": np.zeros((2, 2, 2), np.float32),
        "value": np.array([[0.1, 0.1], [0.4, 0.4]], np.float32),
        "seat": np.array([[0, 0], [1, 0]], np.int32),
        "done": np.zeros((2, 2), bool),
        "last_value": np.array([0.3, 0.3], np.float32),
        "last_seat": np.array([0, 0], np.int32),
    }
    advantage, _ = gae_time_major(**r, config=config, alternate=True)
    turned, kept = -0.3 - 0.4, 0.3 - 0.4
    np.testing.assert_allclose(advantage[1], [turned, kept], atol=1e-6)
    np.testing.assert_allclose(advantage[0], [-0.4 - 0.1 - 0.5 * turned, 0.4 - 0.1 + 0.5 * kept], atol=1e-6)


def test_alternation_gives_the_loser_of_the_last_move_its_loss_one_ply_earlier() -> None:
    r = {
        "rewards": np.array([[[0.0, 0.0]], [[-1.0, 1.0]]], np.float32),
        "value": np.zeros((2, 1), np.float32),
        "seat": np.array([[0], [1]], np.int32),
        "done": np.array([[False], [True]]),
        "last_value": np.array([99.0], np.float32),
        "last_seat": np.array([0], np.int32),
    }
    for alternate in (True, False):
        advantage, _ = gae_time_major(**r, config=AdvantageConfig(lam=1.0), alternate=alternate)
        np.testing.assert_allclose(advantage[:, 0], [-1.0, 1.0])


def test_with_full_returns_both_ways_agree_in_a_finished_zero_sum_game() -> None:
    r = rollout(2, seed=5, zero_sum=True)
    r["done"][-1] = True
    config = AdvantageConfig(gamma=1.0, lam=1.0)
    by_seat, _ = gae_time_major(**r, config=config, alternate=False)
    alternating, _ = gae_time_major(**r, config=config, alternate=True)
    np.testing.assert_allclose(by_seat, alternating, atol=1e-5)


def test_team_mates_may_share_one_chain() -> None:
    """Seats 0 and 2 against 1 and 3: given as two seats, a team's next decision is any member's."""
    r = rollout(4, seed=6, in_turn=True)
    teams = {**r, "seat": r["seat"] % 2, "last_seat": r["last_seat"] % 2, "rewards": r["rewards"][..., :2]}
    advantage, _ = gae_time_major(**teams, config=AdvantageConfig(gamma=0.9, lam=0.8), alternate=False)
    for n in range(N):
        for team in range(2):
            for t, expected in plain_seat_gae(teams, n, team, 0.9, 0.8).items():
                assert advantage[t, n] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("kind", ["gae", "monte_carlo", "vtrace"])
@pytest.mark.parametrize(("players", "alternate"), [(1, False), (2, False), (2, True), (4, False)])
def test_the_device_twin_equals_numpy(kind: Any, players: int, alternate: bool) -> None:
    config = AdvantageConfig(kind=kind, gamma=0.97, lam=0.9, rho_clip=1.2, c_clip=0.9)
    twin = jax.jit(lambda **arrays: gae_on_device(**arrays, config=config, alternate=alternate))
    for seed in range(4):
        r = rollout(players, seed, zero_sum=players == 2)
        expected = gae_time_major(**r, config=config, alternate=alternate)
        for found, want in zip(twin(**{k: jnp.asarray(x) for k, x in r.items()}), expected, strict=True):
            np.testing.assert_allclose(found, want, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("alternate", [True, False])
def test_the_device_twin_takes_the_value_of_every_seat(alternate: bool) -> None:
    r = rollout(2, seed=8)
    r["last_value"] = np.random.default_rng(8).normal(size=(N, 2)).astype(np.float32)
    config = AdvantageConfig()
    expected = gae_time_major(**r, config=config, alternate=alternate)
    arrays = {k: jnp.asarray(x) for k, x in r.items()}
    for found, want in zip(gae_on_device(**arrays, config=config, alternate=alternate), expected, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)
