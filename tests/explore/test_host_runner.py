"""The host runner: what it collects, what it leaves alone, and what a bad game costs."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from ludus import plugins
from ludus.explore.runners.host_runner import HostRunner
from ludus.games import Game, GameSpec, make_game
from ludus.records import EpisodeBatch, PolicyName, PolicyRef, PolicyVersion, Seat, Task, TaskId

MakeRunner = Callable[..., HostRunner]
MAIN = PolicyRef(name=PolicyName("main"))
NEWER = PolicyRef(name=PolicyName("main"), version=PolicyVersion(1))
RANDOM = PolicyRef(name=PolicyName("random"))


def task(number: int, *seats: Seat, game: str = "g") -> Task:
    return Task(id=TaskId(number), game=game, seed=1000 + number, seats=seats)


def play(runner: HostRunner, tasks: Sequence[Task]) -> EpisodeBatch:
    runner.submit(tasks)
    while not runner.is_idle:
        runner.step()
    return runner.harvest()


def learner(ref: PolicyRef = MAIN) -> Seat:
    return Seat(policy=ref, learns=True)


def rows_of(batch: EpisodeBatch) -> dict[tuple[str, int], tuple[bytes, ...]]:
    rows = batch.experiences
    found = {}
    for row in range(len(rows)):
        part = slice(rows.offsets[row], rows.offsets[row + 1])
        key = (str(rows.sequences["episode"][row]), int(rows.sequences["seat"][row]))
        found[key] = tuple(rows.steps[name][part].tobytes() for name in sorted(rows.steps))
    return found


def test_an_episode_does_not_depend_on_its_neighbours_or_its_slot(make_runner: MakeRunner, tic_tac_toe: Game) -> None:
    tasks = [task(n, learner(), learner()) for n in range(100)]
    alone = rows_of(play(make_runner(tic_tac_toe, slots=1), tasks[:20]))
    crowded = rows_of(play(make_runner(tic_tac_toe, slots=90), list(reversed(tasks))))
    assert {key: crowded[key] for key in alone} == alone
    assert len(crowded) == 200


def test_only_learning_seats_are_collected(make_runner: MakeRunner, tic_tac_toe: Game) -> None:
    mixed = [
        task(n, learner(), Seat(policy=NEWER)) if n % 2 else task(n, Seat(policy=RANDOM), learner()) for n in range(10)
    ]
    rows = play(make_runner(tic_tac_toe), mixed).experiences
    assert rows.sequences["seat"].tolist() == [0 if number % 2 else 1 for number in rows.sequences["task"].tolist()]
    assert set(rows.steps["version"].tolist()) == {0}
    assert set(rows.sequences["policy"].tolist()) == {"main"}


def test_every_step_is_stamped_with_the_version_that_played_it(make_runner: MakeRunner, tic_tac_toe: Game) -> None:
    rows = play(make_runner(tic_tac_toe), [task(0, learner(MAIN), learner(NEWER))]).experiences
    versions = np.split(rows.steps["version"], rows.offsets[1:-1])
    assert [set(part.tolist()) for part in versions] == [{0}, {1}]


def test_moves_replay_to_the_same_result(make_runner: MakeRunner, tic_tac_toe: Game) -> None:
    from ludus.records import derive_seed

    batch = play(make_runner(tic_tac_toe), [task(n, learner(), Seat(policy=RANDOM)) for n in range(10)])
    for episode in batch.episodes:
        position = tic_tac_toe.start(derive_seed(episode.task.seed, "game"))
        for _, seat, action in episode.turns():
            position.act({seat: action})
        assert tuple(position.returns()) == episode.returns
        assert not position.acting()


@pytest.mark.parametrize("key", ["open_spiel:goofspiel(num_cards=4,imp_info=true)", "open_spiel:kuhn_poker(players=3)"])
def test_simultaneous_and_many_player_games_give_each_seat_its_sequence(make_runner: MakeRunner, key: str) -> None:
    game = make_game(key)
    seats = [learner() for _ in range(game.spec.players)]
    batch = play(make_runner(game), [task(n, *seats) for n in range(20)])
    assert not [episode.error for episode in batch.episodes if episode.error]
    rows = batch.experiences
    returns = {episode.id: episode.returns for episode in batch.episodes}
    for row in range(len(rows)):
        expected = returns[rows.sequences["episode"][row]][rows.sequences["seat"][row]]
        rewards = rows.steps["reward"][rows.offsets[row] : rows.offsets[row + 1]]
        assert rewards.sum() == pytest.approx(expected)


def test_rewards_that_come_along_the_way_belong_to_the_move_before_them(make_runner: MakeRunner) -> None:
    batch = play(make_runner(CountingGame()), [task(0, learner())])
    assert batch.experiences.steps["reward"].tolist() == [1.0, 2.0, 3.0]


def test_the_chosen_actions_are_legal_and_their_logp_is_that_of_the_policy(
    make_runner: MakeRunner, tic_tac_toe: Game
) -> None:
    rows = play(make_runner(tic_tac_toe), [task(n, learner(), learner()) for n in range(20)]).experiences
    steps = np.arange(rows.step_count)
    assert rows.steps["legal"][steps, rows.steps["action"]].all()
    assert (rows.steps["logp"] <= 0).all()


def test_greedy_seats_repeat_themselves(make_runner: MakeRunner, tic_tac_toe: Game) -> None:
    greedy = Seat(policy=MAIN, greedy=True)
    batch = play(make_runner(tic_tac_toe), [task(n, greedy, greedy) for n in range(8)])
    assert len({episode.move_actions.tobytes() for episode in batch.episodes}) == 1


def test_noise_moves_are_played_and_not_trained_on(make_runner: MakeRunner, tic_tac_toe: Game) -> None:
    rows = play(make_runner(tic_tac_toe, noise=0.5), [task(n, learner(), learner()) for n in range(60)]).experiences
    assert 0.35 < 1 - rows.steps["mask"].mean() < 0.65
    assert rows.steps["legal"][np.arange(rows.step_count), rows.steps["action"]].all()


def test_long_episodes_are_cut_and_say_so(make_runner: MakeRunner, tic_tac_toe: Game) -> None:
    batch = play(make_runner(tic_tac_toe, max_length=3), [task(0, learner(), learner())])
    assert batch.episodes[0].truncated
    assert batch.episodes[0].length == 3
    assert batch.experiences.sequences["truncated"].all()


def test_a_slow_episode_fails_at_its_deadline(make_runner: MakeRunner, tic_tac_toe: Game) -> None:
    batch = play(make_runner(tic_tac_toe, deadline_s=0.0), [task(0, learner(), learner())])
    assert "longer than 0 s" in batch.episodes[0].error
    assert len(batch.experiences) == 0


@pytest.mark.parametrize("where", ["start", "observe", "legal", "act", "acting"])
def test_a_game_that_raises_costs_its_own_episode_only(make_runner: MakeRunner, where: str) -> None:
    game = BreakingGame(where, seeds={1})
    batch = play(make_runner(game), [task(n, learner()) for n in range(3)])
    errors = {episode.task.id: episode.error for episode in batch.episodes}
    assert [number for number, error in errors.items() if error] == [1]
    assert f"broken {where}" in errors[TaskId(1)]
    assert sorted(batch.experiences.sequences["task"].tolist()) == [0, 2]


def test_a_player_that_raises_costs_its_own_episode_only(make_runner: MakeRunner, tic_tac_toe: Game) -> None:
    unknown = Seat(policy=PolicyRef(name=PolicyName("nobody")))
    batch = play(make_runner(tic_tac_toe), [task(0, learner(), unknown), task(1, learner(), learner())])
    assert [bool(episode.error) for episode in sorted(batch.episodes, key=lambda e: e.task.id)] == [True, False]


class CountingGame:
    """One player, three moves, reward n for the n-th."""

    spec = GameSpec(
        key="counting",
        players=1,
        actions=2,
        observation_shape=(1,),
        max_length=3,
        rewards_every_move=True,
        is_zero_sum=False,
    )

    def start(self, seed: int) -> "CountingPosition":
        return CountingPosition()


class CountingPosition:
    def __init__(self) -> None:
        self.moves = 0

    def acting(self) -> tuple[int, ...]:
        return (0,) if self.moves < 3 else ()

    def legal(self, seat: int) -> list[int]:
        return [0, 1]

    def observe(self, seat: int, out: np.ndarray) -> None:
        out[:] = self.moves

    def act(self, actions: Mapping[int, int]) -> None:
        self.moves += 1

    def returns(self) -> list[float]:
        return [self.moves * (self.moves + 1) / 2]

    def text(self, seat: int | None = None) -> str:
        return str(self.moves)

    def action_text(self, seat: int, action: int) -> str:
        return str(action)


class BreakingGame(CountingGame):
    """Raises in one of its methods, in its second move, for every second game started."""

    def __init__(self, where: str, seeds: set[int]) -> None:
        self.where = where
        self.started = 0
        self.broken = seeds

    def start(self, seed: int) -> CountingPosition:
        number = self.started
        self.started += 1
        if number not in self.broken:
            return CountingPosition()
        if self.where == "start":
            raise ValueError("broken start")
        return BreakingPosition(self.where)


class BreakingPosition(CountingPosition):
    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where

    def _break(self, where: str) -> None:
        if self.where == where and self.moves == 1:
            raise ZeroDivisionError(f"broken {where}")

    def acting(self) -> tuple[int, ...]:
        self._break("acting")
        return super().acting()

    def legal(self, seat: int) -> list[int]:
        self._break("legal")
        return super().legal(seat)

    def observe(self, seat: int, out: np.ndarray) -> None:
        self._break("observe")
        super().observe(seat, out)

    def act(self, actions: Mapping[int, int]) -> None:
        self._break("act")
        super().act(actions)


def test_returns_that_raise_at_a_cut_cost_their_own_episode_only(make_runner: MakeRunner) -> None:
    class Unfinished(CountingPosition):
        def returns(self) -> list[float]:
            raise RuntimeError("not over yet")

    class UnfinishedGame(CountingGame):
        def start(self, seed: int) -> CountingPosition:
            return Unfinished()

    batch = play(make_runner(UnfinishedGame(), max_length=2), [task(0, learner())])
    assert "not over yet" in batch.episodes[0].error


FORGETFUL = """
from tests.explore.test_host_runner import CountingGame, CountingPosition


class Forgetful(CountingGame):
    def start(self, seed):
        return ForgetfulPosition()


class ForgetfulPosition(CountingPosition):
    def METHOD(self, *seat):
        return ANSWER
"""


@pytest.mark.parametrize(
    ("method", "answer", "words"),
    [
        ("returns", "None", "returns() gave None; expected 1 numbers, one per seat"),
        ("returns", "[1.0, 2.0]", "returns() gave [1.0, 2.0]; expected 1 numbers, one per seat"),
        ("returns", "['much']", "returns() gave ['much']; expected 1 numbers, one per seat"),
        ("legal", "None", "legal() gave None; expected actions from 0 to 1"),
        ("legal", "[7]", "legal() gave [7]; expected actions from 0 to 1"),
    ],
)
def test_an_answer_of_a_plugin_that_is_none_names_its_file_and_line(
    make_runner: MakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, answer: str, words: str
) -> None:
    monkeypatch.setattr(plugins, "_FILES", {})
    file = tmp_path / f"{tmp_path.name}.py"
    file.write_text(FORGETFUL.replace("METHOD", method).replace("ANSWER", answer))
    plugins.load_plugins([file])
    game = vars(sys.modules[f"ludus_plugin_{file.stem}"])["Forgetful"]()
    (episode,) = play(make_runner(game), [task(0, learner())]).episodes
    assert f"{words} ({file}:11, in {method})" in episode.error


def test_a_version_that_cannot_be_loaded_costs_the_episodes_that_need_it(
    make_runner: MakeRunner, tic_tac_toe: Game
) -> None:
    gone = PolicyRef(name=PolicyName("main"), version=PolicyVersion(7))
    batch = play(make_runner(tic_tac_toe), [task(0, learner(), Seat(policy=gone)), task(1, learner(), learner())])
    errors = {episode.task.id: episode.error for episode in batch.episodes}
    assert "main@7 cannot be loaded" in errors[TaskId(0)]
    assert not errors[TaskId(1)]


def test_a_cancelled_game_is_not_played_on_and_frees_its_slot(make_runner: MakeRunner, tic_tac_toe: Game) -> None:
    runner = make_runner(tic_tac_toe, slots=2)
    runner.submit([task(n, learner(), learner()) for n in range(5)])
    runner.step()
    runner.step()
    assert runner.progress() == [(0, 2), (1, 2)]
    runner.cancel([0, 3])
    batch = play(runner, [])
    assert [episode.task.id for episode in batch.episodes] == [1, 2, 4]
    assert {episode.steps for episode in batch.episodes} <= set(range(5, 10))
    runner.submit([task(5, learner(), learner())])
    while not runner.is_idle:
        runner.step()
    runner.cancel([5])
    assert runner.finished_episodes == 0
