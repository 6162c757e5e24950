"""pgx's games through our protocol, in lock-step with pgx itself."""

from __future__ import annotations

import jax
import numpy as np
import pgx
import pytest

from ludus.errors import ConfigError, EnvError
from ludus.games.pgx import PgxGame, PgxPosition
from ludus.games.pgx_rules import ACTION_NAMES, REFUSED, RULES

SLOW_TO_TRACE = {"animal_shogi", "chess", "gardner_chess", "minatar-seaquest", "shogi", "sparrow_mahjong"}


def play_out(position: PgxPosition, rng: np.random.Generator) -> list[int]:
    actions = []
    while position.acting():
        (seat,) = position.acting()
        actions.append(int(rng.choice(position.legal(seat))))
        position.act({seat: actions[-1]})
    return actions


def key_of(seed: int, ply: int) -> jax.Array:
    words = np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)
    return jax.random.fold_in(jax.random.wrap_key_data(words), ply)


@pytest.mark.parametrize("name", ["tic_tac_toe", "2048"])
def test_position_says_what_the_pgx_state_says(name: str) -> None:
    game, env, rng = PgxGame(name), pgx.make(name), np.random.default_rng(3)
    step, begin = jax.jit(env.step), jax.jit(env.init)
    out = np.zeros(game.spec.observation_shape, np.float32)
    for seed in (1, 2**40 + 5, 2):
        position, state = game.start(seed), begin(key_of(seed, 0))
        first, total, ply = int(state.current_player), np.zeros(game.spec.players), 0
        while not state.terminated and ply < 60:
            (seat,) = position.acting()
            assert (seat + first) % game.spec.players == state.current_player
            assert position.legal(seat) == np.flatnonzero(state.legal_action_mask).tolist()
            position.observe(seat, out)
            assert np.array_equal(out, np.asarray(state.observation, np.float32))
            action, ply = int(rng.choice(position.legal(seat))), ply + 1
            position.act({seat: action})
            state = step(state, action, key_of(seed, ply))
            total += state.rewards
            assert position.returns() == np.roll(total, -first).tolist()
        assert bool(position.acting()) != bool(state.terminated)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW_TO_TRACE else ()) for name in RULES]
)
def test_rules_table_says_what_the_environment_says(name: str) -> None:
    env, rules = pgx.make(name), RULES[name]
    state = jax.eval_shape(env.init, jax.random.key(0))
    assert rules.players == env.num_players == state.rewards.shape[0]
    assert (rules.actions,) == state.legal_action_mask.shape
    assert rules.observation_shape == state.observation.shape
    assert name not in ACTION_NAMES or len(ACTION_NAMES[name]) == rules.actions


def test_rules_table_has_every_game_of_pgx() -> None:
    assert set(RULES) == set(pgx.available_envs())
    assert not set(RULES) & set(REFUSED)


def test_seat_0_moves_first_whoever_pgx_lets_begin() -> None:
    game, begin = PgxGame("tic_tac_toe"), jax.jit(pgx.make("tic_tac_toe").init)
    assert {int(begin(key_of(seed, 0)).current_player) for seed in range(12)} == {0, 1}
    assert all(game.start(seed).acting() == (0,) for seed in range(12))


def test_seat_0_wins_when_it_connects_four_first() -> None:
    game = PgxGame("connect_four")
    for seed in range(6):
        position = game.start(seed)
        for ply in range(7):
            position.act({ply % 2: ply % 2})
        assert (position.acting(), position.returns()) == ((), [1.0, -1.0])


def test_seat_order_can_be_mapped_over_fresh_states() -> None:
    game = PgxGame("tic_tac_toe")
    states = jax.vmap(game.env.init)(jax.random.split(jax.random.key(0), 16))
    order = np.asarray(jax.vmap(game.seat_order)(states))
    assert np.array_equal(order[:, 0], states.current_player)
    assert np.array_equal(np.sort(order, axis=1), np.tile([0, 1], (16, 1)))


def test_seat_that_is_not_to_move_sees_its_own_side() -> None:
    position = PgxGame("tic_tac_toe").start(3)
    position.act({0: 4})
    mine, theirs = np.zeros((2, 3, 3, 2), np.float32)
    position.observe(0, mine)
    position.observe(1, theirs)
    assert mine[1, 1].tolist() == [1.0, 0.0]
    assert theirs[1, 1].tolist() == [0.0, 1.0]


def test_seed_decides_chance() -> None:
    game = PgxGame("2048")

    def record(seed: int) -> tuple[list[int], list[float], str]:
        position = game.start(seed)
        actions = play_out(position, np.random.default_rng(0))
        return actions, position.returns(), position.text()

    assert record(5) == record(5)
    assert record(5) != record(6)
    assert record(5) != record(5 + 2**33)


def test_returns_add_up_the_rewards_of_every_move() -> None:
    position = PgxGame("2048").start(0)
    totals = [position.returns()[0]]
    while position.acting():
        position.act({0: position.legal(0)[0]})
        totals.append(position.returns()[0])
    assert totals == sorted(totals)
    assert totals[-1] > totals[len(totals) // 2] > 0


@pytest.mark.parametrize("bad", [{0: 7}, {0: -1}, {}, {1: 0}, {0: 0, 1: 1}, {0: None}, {0: 1.0}])
def test_refused_move_changes_nothing(bad: dict[int, int]) -> None:
    position = PgxGame("connect_four").start(0)
    with pytest.raises(EnvError):
        position.act(bad)
    assert (position.acting(), position.legal(0), position.returns()) == ((0,), list(range(7)), [0.0, 0.0])


def test_full_column_is_refused_and_does_not_cost_the_game() -> None:
    position = PgxGame("connect_four").start(0)
    for ply in range(6):
        position.act({ply % 2: 0})
    with pytest.raises(EnvError, match="action 0 is not legal"):
        position.act({0: 0})
    assert (position.acting(), position.returns()) == ((0,), [0.0, 0.0])


def test_finished_game_refuses_moves() -> None:
    position = PgxGame("tic_tac_toe").start(0)
    play_out(position, np.random.default_rng(0))
    with pytest.raises(EnvError, match="over"):
        position.act({0: 0})


@pytest.mark.parametrize(
    ("name", "message"),
    [("conect_four", "did you mean pgx:connect_four"), ("bridge_bidding", "downloads"), ("", "no game ''")],
)
def test_unusable_name_is_one_clear_error(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PgxGame(name)


def test_game_without_a_twin_says_so_when_a_bot_wants_its_state() -> None:
    with pytest.raises(EnvError, match="OpenSpiel has no equal game"):
        PgxGame("2048").start(0).open_spiel_state()


def test_actions_have_names_where_there_are_any() -> None:
    assert PgxGame("2048").start(1).action_text(0, PgxGame("2048").start(1).legal(0)[0]) in ACTION_NAMES["2048"]
    assert PgxGame("kuhn_poker").start(0).action_text(0, 0) == "Bet"
