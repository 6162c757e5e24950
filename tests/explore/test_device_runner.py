"""The device runner: pure, exact, and honest about whose moves are whose."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ludus.config import MlpConfig
from ludus.explore.runners.device_runner import DeviceGames, DeviceRunner, Rollout, Tally
from ludus.games.pgx import PgxGame
from ludus.policies.networks import PolicyNetwork

GAMES, HORIZON = 32, 24
BLOCKS = (8, 8)
"""One size for all tests with opponents: a program takes seconds to compile."""


@cache
def make(name: str = "tic_tac_toe", **options: Any) -> DeviceRunner:
    game = PgxGame(name)
    env = game.env
    network = PolicyNetwork(
        MlpConfig(hidden=(16,)),
        observation_shape=env.observation_shape,
        actions=env.num_actions,
        layout="channels_last",
    )
    return DeviceRunner(env=env, seat_order=game.seat_order, network=network, games=GAMES, horizon=HORIZON, **options)


@cache
def programs(runner: DeviceRunner) -> tuple[Any, Any]:
    """Compiled once for each runner."""
    return jax.jit(runner.start), jax.jit(runner.rollout)


def roll(
    runner: DeviceRunner,
    seed: int = 0,
    *,
    games: DeviceGames | None = None,
    opponent: Any = None,
    restart: tuple[bool, ...] = (),
) -> tuple[DeviceGames, DeviceGames, Rollout, Tally]:
    start, rollout = programs(runner)
    games = start(jax.random.key(seed)) if games is None else games
    opponents = [opponent or runner.network.init(9)] * len(runner.blocks)
    flags = jnp.array(restart or (False,) * len(runner.blocks), bool)
    return games, *rollout(runner.network.init(0), opponents, games, jax.random.key(seed + 1), restart=flags)


@pytest.fixture(scope="module")
def mirror() -> tuple[DeviceGames, DeviceGames, Rollout, Tally]:
    return roll(make())


def test_a_rollout_is_a_pure_function_of_weights_state_and_key(mirror: Any) -> None:
    again = roll(make())
    for one, other in zip(jax.tree.leaves(mirror), jax.tree.leaves(again), strict=True):
        assert np.array_equal(np.asarray(one), np.asarray(other))


def test_actions_are_legal_and_logps_are_those_of_the_network(mirror: Any) -> None:
    runner, rollout = make(), mirror[2]
    legal = np.asarray(rollout.legal).reshape(-1, 9)
    action = np.asarray(rollout.action).reshape(-1)
    assert legal[np.arange(len(action)), action].all()
    logits, value = runner.network.apply(runner.network.init(0), rollout.observation.reshape(-1, 3, 3, 2))
    expected = jax.nn.log_softmax(jnp.where(legal, logits, -1e9))[np.arange(len(action)), action]
    assert np.allclose(np.asarray(rollout.logp).reshape(-1), expected, atol=1e-5)
    assert np.allclose(np.asarray(rollout.value).reshape(-1), value, atol=1e-5)
    assert np.asarray(rollout.learns).all()


def test_the_tally_counts_what_the_rollout_shows(mirror: Any) -> None:
    _, _, rollout, tally = mirror
    done = np.asarray(rollout.done)
    assert int(tally.episodes) == done.sum() > 0
    rewards = np.asarray(rollout.rewards)[done]
    assert int(tally.draws) == (rewards == 0).all(axis=1).sum()
    assert int(tally.seat_wins.sum()) == (rewards != 0).any(axis=1).sum()
    assert float(tally.seat_returns.sum()) == pytest.approx(0.0)


def test_seat_zero_is_whoever_moved_first(mirror: Any) -> None:
    """In tic-tac-toe a game that ends with an odd number of plies was won by the first mover."""
    games, _, rollout, tally = mirror
    first_wins = 0
    for game in range(GAMES):
        length = 0
        for t in range(HORIZON):
            length += 1
            if rollout.done[t, game]:
                first_wins += bool((np.asarray(rollout.rewards[t, game]) != 0).any()) and length % 2 == 1
                length = 0
    assert float(tally.seat_wins[0]) == first_wins
    del games


def test_finished_games_start_again(mirror: Any) -> None:
    rollout = mirror[2]
    observation, done = np.asarray(rollout.observation), np.asarray(rollout.done)
    following = observation[1:][done[:-1]]
    assert not following.any(), "the position after an end is an empty board"


def test_opponents_moves_are_not_learned_from_and_seats_are_balanced() -> None:
    _, _, rollout, tally = roll(make(blocks=BLOCKS))
    learns, player = np.asarray(rollout.learns), np.asarray(rollout.player)
    assert learns[:, :16].all()
    for block, place in enumerate((slice(16, 24), slice(24, 32))):
        assert (learns[:, place] == (player[:, place] != np.arange(8) % 2)).all()
        assert float(tally.block_episodes[block]) == np.asarray(rollout.done)[:, place].sum()
        assert 0 <= float(tally.block_score[block]) <= float(tally.block_episodes[block])


def test_opponents_play_with_their_own_weights() -> None:
    runner = make(blocks=BLOCKS)
    certain = runner.network.init(1)
    head = next(name for name in certain if name.endswith("bias") and certain[name].shape == (9,))
    certain = {**certain, head: jnp.arange(9) * 100.0}
    _, _, rollout, _ = roll(runner, opponent=certain)
    theirs = ~np.asarray(rollout.learns)
    assert theirs.any(axis=0).tolist() == [False] * 16 + [True] * 16
    legal, action = np.asarray(rollout.legal)[theirs], np.asarray(rollout.action)[theirs]
    assert (action == [np.flatnonzero(row).max() for row in legal]).all()


def test_a_restarted_block_begins_anew_and_the_rest_goes_on() -> None:
    runner = make(blocks=BLOCKS)
    _, games, _, _ = roll(runner)
    before = np.asarray(games.length)
    _, _, rollout, _ = roll(runner, seed=5, games=games, restart=(False, True))
    first = np.asarray(rollout.observation[0]).reshape(GAMES, -1)
    assert not first[24:].any()
    assert first[:24][before[:24] > 0].any(axis=1).all()


def test_noise_moves_are_uniform_and_not_learned_from() -> None:
    _, _, rollout, _ = roll(make(noise=0.5))
    assert 0.4 < 1 - np.asarray(rollout.learns).mean() < 0.6


def test_games_of_chance_differ_between_games() -> None:
    _, _, rollout, tally = roll(make("kuhn_poker"))
    assert float(tally.episodes) > GAMES
    first = np.asarray(rollout.observation[0]).reshape(GAMES, -1)
    assert len(np.unique(first, axis=0)) > 1
