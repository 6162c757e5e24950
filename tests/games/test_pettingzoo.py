"""PettingZoo's environments, beside the environments themselves."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from mpe2.simple_spread import simple_spread
from mpe2.simple_tag import simple_tag
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.classic.connect_four import connect_four
from pettingzoo.classic.tictactoe import tictactoe
from pettingzoo.utils.conversions import parallel_to_aec

from ludus.errors import ConfigError, EnvError
from ludus.games import make_game
from ludus.games.pettingzoo import PettingZooGame
from ludus.games.pettingzoo_catalog import ENVIRONMENTS, missing_for
from ludus.testing import check_game


class Relay(ParallelEnv[str, Any, int]):
    """Two runners and a coach. The slow runner leaves after two cycles; the coach says a word of a dict."""

    metadata = {"name": "relay", "render_modes": []}  # noqa: RUF012 - PettingZoo's own form

    def __init__(self) -> None:
        self.possible_agents = ["runner_0", "runner_1", "coach_0"]
        self.render_mode = None
        self.agents: list[str] = []
        self._spaces: dict[str, Any] = {
            "runner_0": spaces.Box(-9, 9, (2,), np.float32),
            "runner_1": spaces.Box(-9, 9, (2,), np.float32),
            "coach_0": spaces.Dict({"pace": spaces.Box(0, 9, (1,), np.float32), "day": spaces.Discrete(3)}),
        }
        self._choices = {
            "runner_0": spaces.Discrete(2),
            "runner_1": spaces.Discrete(2),
            "coach_0": spaces.Discrete(4, start=1),
        }

    def observation_space(self, agent: str) -> Any:
        return self._spaces[agent]

    def action_space(self, agent: str) -> Any:
        return self._choices[agent]

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        self.agents = list(self.possible_agents)
        self._cycle = 0
        self._day = int(np.random.default_rng(seed).integers(3))
        return self._views(), self._infos()

    def step(self, actions: dict[str, int]) -> tuple[Any, ...]:
        self._cycle += 1
        rewards = {agent: float(action) for agent, action in actions.items()}
        ended = {agent: agent == "runner_1" and self._cycle == 2 for agent in self.agents}
        cut = {agent: self._cycle == 4 for agent in self.agents}
        views, infos = self._views(), self._infos()
        self.agents = [agent for agent in self.agents if not ended[agent] and not cut[agent]]
        return views, rewards, ended, cut, infos

    def _views(self) -> dict[str, Any]:
        pace = np.array([self._cycle], np.float32)
        all_views = {
            "runner_0": np.array([self._cycle, 1], np.float32),
            "runner_1": np.array([self._cycle, 2], np.float32),
            "coach_0": {"pace": pace, "day": self._day},
        }
        return {agent: all_views[agent] for agent in self.agents}

    def _infos(self) -> dict[str, Any]:
        mask = np.array([1, 0, 1, 1] if self._cycle == 0 else [1, 1, 1, 1], np.int8)
        return {agent: {"action_mask": mask} if agent == "coach_0" else {} for agent in self.agents}


def seen(position: Any, game: Any, seat: int) -> np.ndarray[Any, Any]:
    out = np.full(game.spec.observation_shape, np.nan, np.float32)
    position.observe(seat, out)
    return out


@pytest.mark.parametrize(
    ("key", "make", "options"),
    [
        ("mpe.simple_spread_v3(N=3,max_cycles=7,local_ratio=0.25)", simple_spread, {"N": 3, "max_cycles": 7, "local_ratio": 0.25}),
        ("mpe.simple_tag_v3(num_good=2,num_adversaries=2,max_cycles=7)", simple_tag, {"num_good": 2, "num_adversaries": 2, "max_cycles": 7}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("seed", [0, 3])
def test_parallel_game_is_the_environment_step_by_step(key: str, make: Any, options: Any, seed: int) -> None:
    game, env = make_game(f"pettingzoo:{key}"), make.parallel_env(**options)
    game.start(seed + 1)  # another game in flight
    position, rng = game.start(seed), np.random.default_rng(seed)
    views, _ = env.reset(seed=seed)
    totals = dict.fromkeys(env.possible_agents, 0.0)
    for _ in range(7):
        assert position.acting() == tuple(range(len(env.agents)))
        state = np.zeros(game.spec.state_shape, np.float32)
        position.state(state)  # type: ignore[attr-defined]
        np.testing.assert_array_equal(state, env.state())
        for seat, agent in enumerate(env.agents):
            size = env.observation_space(agent).shape[0]
            np.testing.assert_array_equal(seen(position, game, seat)[:size], views[agent].astype(np.float32))
        moves = rng.integers(0, 5, len(env.agents)).tolist()
        position.act(dict(enumerate(moves)))
        views, rewards, *_ = env.step(dict(zip(env.agents, moves, strict=True)))
        totals = {agent: totals[agent] + rewards[agent] for agent in totals}
        np.testing.assert_allclose(position.returns(), list(totals.values()), rtol=1e-12)
    assert env.agents == []
    assert position.acting() == ()


@pytest.mark.parametrize(
    ("key", "make"), [("classic.tictactoe_v3", tictactoe), ("classic.connect_four_v3", connect_four)]
)
def test_turn_based_game_is_the_environment_step_by_step(key: str, make: Any) -> None:
    game, env = make_game(f"pettingzoo:{key}"), make.env()
    for seed in range(3):
        position, rng = game.start(seed), np.random.default_rng(seed)
        env.reset(seed=seed)
        totals = [0.0, 0.0]
        for agent in env.agent_iter():
            view, reward, ended, cut, _ = env.last()
            totals[env.possible_agents.index(agent)] += reward
            if ended or cut:
                env.step(None)
                continue
            seat = env.possible_agents.index(agent)
            assert position.acting() == (seat,)
            assert position.legal(seat) == np.flatnonzero(view["action_mask"]).tolist()
            np.testing.assert_array_equal(seen(position, game, seat), view["observation"])
            move = int(rng.choice(position.legal(seat)))
            position.act({seat: move})
            env.step(move)
        assert position.acting() == ()
        assert list(position.returns()) == totals


def test_the_two_interfaces_of_an_environment_come_to_the_same_game() -> None:
    together = make_game("pettingzoo:mpe.simple_spread_v3(N=2,max_cycles=5)").start(4)
    in_turns = make_game("pettingzoo:mpe.simple_spread_v3(N=2,max_cycles=5,api=aec)").start(4)
    rng = np.random.default_rng(0)
    while together.acting():
        moves = dict(enumerate(rng.integers(0, 5, 2).tolist()))
        together.act(moves)
        for seat, move in moves.items():
            assert in_turns.acting() == (seat,)
            in_turns.act({seat: move})
        np.testing.assert_allclose(in_turns.returns(), together.returns())
    assert not in_turns.acting()


def test_own_environment_passes_both_conformance_tests() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pettingzoo.test import api_test, parallel_api_test

        parallel_api_test(Relay(), num_cycles=20)
        api_test(parallel_to_aec(Relay()), num_cycles=20)
    check_game(PettingZooGame(Relay, key="relay"), games=3)
    check_game(PettingZooGame(lambda: parallel_to_aec(Relay()), key="relay"), games=3)


def test_agents_that_differ_are_padded_and_named() -> None:
    game = PettingZooGame(Relay, key="relay", teams=[["runner"], ["coach_0"]])
    assert (game.spec.observation_shape, game.spec.actions) == ((7,), 4)
    assert game.spec.teams == (0, 0, 1)
    position = game.start(0)
    assert seen(position, game, 1).tolist() == [0, 2, 0, 0, 0, 1, 0]
    day = seen(position, game, 2)[:3]
    assert sorted(day.tolist()) == [0, 0, 1]
    assert seen(position, game, 2)[4:].tolist() == [0, 0, 1]
    assert [list(position.legal(seat)) for seat in position.acting()] == [[0, 1], [0, 1], [0, 2, 3]]


def test_dead_agent_does_not_act_and_sees_nothing_while_the_others_go_on() -> None:
    game = PettingZooGame(Relay, key="relay")
    position = game.start(0)
    position.act({0: 1, 1: 1, 2: 3})
    position.act({0: 0, 1: 1, 2: 1})
    assert position.acting() == (0, 2)
    assert seen(position, game, 1).tolist() == [0, 0, 0, 0, 0, 1, 0]
    with pytest.raises(EnvError, match=r"seats \(0, 2\) act now"):
        position.act({0: 0, 1: 0, 2: 0})
    position.act({0: 1, 2: 0})
    position.act({0: 1, 2: 0})
    assert position.acting() == ()
    assert position.returns() == [3.0, 2.0, 8.0], "the coach's actions begin at 1"


def test_state_is_what_all_see_where_the_environment_tells_none() -> None:
    game = PettingZooGame(Relay, key="relay")
    position = game.start(1)
    state = np.full(game.spec.state_shape, np.nan, np.float32)
    position.state(state)
    assert state.tolist() == np.concatenate([seen(position, game, seat) for seat in range(3)]).tolist()


def test_game_is_over_at_its_longest_and_environments_are_used_again() -> None:
    made: list[Relay] = []
    game = PettingZooGame(lambda: made.append(Relay()) or made[-1], key="relay", max_length=3)  # type: ignore[func-returns-value]
    for _ in range(3):
        position = game.start(0)
        while position.acting():
            position.act({seat: position.legal(seat)[0] for seat in position.acting()})
        assert position.returns()[2] == 3.0
    assert len(made) == 1


class Painter(Relay):
    def action_space(self, agent: str) -> Any:
        return spaces.Box(0, 1, (3,), np.float32)


class Reader(Relay):
    def observation_space(self, agent: str) -> Any:
        return spaces.Text(9)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (Painter, "runner_0 acts in Box.*only discrete actions can be played"),
        (Reader, r"runner_0 sees Text.*expected a box or a dict"),
        (dict, "dict is neither a ParallelEnv nor an AECEnv"),
    ],
)
def test_what_cannot_be_played_is_refused_with_the_reason(make: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        PettingZooGame(make, key="mine")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("mpe.simple_spred_v3", "did you mean pettingzoo:mpe.simple_spread_v3"),
        ("os.system", "no environment 'os.system' is known"),
        ("mpe.simple_spread_v3(M=3)", "unexpected keyword argument 'M'"),
        ("mpe.simple_spread_v3(N=3,N=4)", "each once"),
        ("mpe.simple_spread_v3(N=__import__('os'))", "expected parameter=value"),
        ("mpe.simple_spread_v3(continuous_actions=True)", "only discrete actions"),
        ("mpe.simple_spread_v3(render_mode=human)", "without a screen"),
        ("classic.tictactoe_v3(api=parallel)", "expected api=aec"),
        ("mpe.simple_spread_v3(agent_id=maybe)", "agent_id=True or agent_id=False"),
    ],
)
def test_a_bad_name_is_refused_in_one_line(name: str, reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make_game(f"pettingzoo:{name}")
    assert len(str(refused.value).splitlines()) == 1
    assert reason in str(refused.value)


def test_teams_must_name_every_agent() -> None:
    with pytest.raises(ConfigError, match="teams name no team for coach_0"):
        PettingZooGame(Relay, key="relay", teams=[["runner"]])


def test_cooperative_and_mixed_environments_have_their_teams() -> None:
    assert make_game("pettingzoo:mpe.simple_spread_v3").spec.is_cooperative
    tag = make_game("pettingzoo:mpe.simple_tag_v3").spec
    assert (tag.teams, tag.is_cooperative) == ((0, 0, 0, 1), False)
    assert make_game("pettingzoo:mpe.simple_spread_v3(agent_id=True)").spec.observation_shape == (21,)


def test_every_listed_environment_is_of_its_api() -> None:
    for name, facts in ENVIRONMENTS.items():
        if not missing_for(name) and name != "classic.chess_v6":
            game = make_game(f"pettingzoo:{name}")
            assert game.spec.is_simultaneous == facts.simultaneous
            assert not isinstance(game, AECEnv)
