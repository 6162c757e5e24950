"""Games of words in flight: what is collected, what an invalid move costs, and what a bad game costs."""

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from ludus.config.sections.rewards import LengthRewardConfig
from ludus.errors import EngineLost, Unreachable
from ludus.explore.players.fixed import make_text_player
from ludus.explore.runners.language_runner import LanguageRunner
from ludus.games.registry import make_text_game
from ludus.records import EpisodeBatch, PolicyName, PolicyRef, PolicyVersion, Seat, Task, TaskId
from ludus.rewards.making import make_rewards

MAIN = PolicyRef(name=PolicyName("main"), version=PolicyVersion(3))
RANDOM = PolicyRef(name=PolicyName("random"))
GAME = "open_spiel:tic_tac_toe"
Make = Callable[..., tuple[LanguageRunner, Any]]


def task(number: int, *seats: Seat) -> Task:
    return Task(id=TaskId(number), game=GAME, seed=1000 + number, seats=seats)


def learner() -> Seat:
    return Seat(policy=MAIN, learns=True)


def play(runner: LanguageRunner, tasks: Sequence[Task]) -> EpisodeBatch:
    runner.submit(tasks)
    while not runner.is_idle:
        runner.step()
    return runner.harvest()


def first_move(prompt: str) -> str:
    """The first of the legal moves that the last message names."""
    return prompt.rpartition("Moves: ")[2].split()[0].rstrip(",")


def test_rewards_of_a_game_are_added_for_learning_seats_and_leave_the_result_alone(make_runner: Make) -> None:
    def fixed(name: str, game: Any) -> Any:
        return None if name == "main" else make_text_player(name, game)

    wanted = (LengthRewardConfig(kind="length", longest=10, buffer=10, unit="characters", weight=0.5),)
    runner, _ = make_runner(first_move, rewards=make_rewards(wanted), players=fixed)
    batch = play(runner, [task(0, learner(), Seat(policy=RANDOM)), task(1, Seat(policy=MAIN), Seat(policy=RANDOM))])
    first = min(batch.episodes, key=lambda episode: episode.task.id)
    assert not any(episode.error or episode.rewards for episode in batch.episodes)
    said = [reply for reply, who in zip(first.replies, first.move_seats, strict=True) if who == 0]
    bonus = 0.5 * -sum(len(reply) / 10 for reply in said) / len(said)
    rows = batch.experiences
    assert rows.sequences["final_reward"].tolist() == [first.returns[0]]
    assert rows.steps["reward"].sum() == pytest.approx(first.returns[0] + bonus)
    assert runner.take_counts()["rewards/length/scored"] == len(said), "who does not learn is not scored"


def test_a_game_of_the_policy_against_itself_is_two_whole_conversations(make_runner: Make, chat: Any) -> None:
    runner, engine = make_runner(first_move)
    batch = play(runner, [task(0, learner(), learner())])
    (episode,) = batch.episodes
    assert not episode.error
    assert sorted(episode.returns) in ([-1, 1], [0, 0])
    rows = batch.experiences
    assert rows.sequences["seat"].tolist() == [0, 1]
    assert rows.sequences["final_reward"].tolist() == list(episode.returns)
    for row, seat in enumerate((0, 1)):
        part = slice(rows.offsets[row], rows.offsets[row + 1])
        mask, tokens = rows.steps["mask"][part], rows.steps["action"][part]
        said = [reply for reply, who in zip(episode.replies, episode.move_seats, strict=True) if who == seat]
        sampled = np.split(tokens[mask], np.flatnonzero(np.diff(np.flatnonzero(mask)) > 1) + 1)
        assert [chat.decode(turn.tolist()) for turn in sampled] == said
        assert set(rows.steps["version"][part][mask].tolist()) == {3}
        assert not rows.steps["logp"][part][~mask].any()
        assert (rows.steps["logp"][part][mask] < 0).all()
        assert rows.steps["reward"][part].sum() == episode.returns[seat]
        assert rows.steps["reward"][part][np.flatnonzero(mask)[-1]] == episode.returns[seat]
    assert set(engine.ended) == {f"{episode.id}/{seat}" for seat in (0, 1)}


def test_each_prompt_extends_the_one_before_with_what_was_sampled(make_runner: Make) -> None:
    runner, engine = make_runner(first_move)
    play(runner, [task(0, learner(), Seat(policy=RANDOM))])
    prompts = [request.prompt for request in engine.requests]
    assert len(prompts) >= 3
    for earlier, later in itertools.pairwise(prompts):
        assert later[: len(earlier)] == earlier
        assert len(later) > len(earlier)
    assert len({request.seed for request in engine.requests}) == len(prompts)
    assert len({request.session for request in engine.requests}) == 1


def test_turn_rows_hold_one_reply_each_with_what_came_before(make_runner: Make) -> None:
    runner, _ = make_runner(first_move, prompt={"rows": "turn"})
    batch = play(runner, [task(0, learner(), Seat(policy=RANDOM))])
    rows = batch.experiences
    assert rows.sequences["turn"].tolist() == list(range(len(rows)))
    assert len(set(rows.places.tolist())) == len(rows) >= 3
    for row in range(len(rows)):
        mask = rows.steps["mask"][rows.offsets[row] : rows.offsets[row + 1]]
        assert mask[-1]
        assert np.flatnonzero(np.diff(mask.astype(int)) == 1).size == 1
        assert rows.steps["reward"][rows.offsets[row + 1] - 1] == batch.episodes[0].returns[0]


def test_an_invalid_move_forfeits_and_is_marked(make_runner: Make) -> None:
    runner, _ = make_runner(lambda prompt: "nonsense")
    batch = play(runner, [task(0, learner(), Seat(policy=RANDOM)), task(1, Seat(policy=RANDOM), learner())])
    assert sorted(episode.returns for episode in batch.episodes) == [(-1.0, 1.0), (1.0, -1.0)]
    rows = batch.experiences
    assert rows.sequences["final_reward"].tolist() == [-1, -1]
    assert rows.steps["invalid"].sum() == 2
    assert all(episode.move_actions[-1] == 0 for episode in batch.episodes)


def test_a_seat_may_try_again_as_often_as_allowed(make_runner: Make) -> None:
    def stubborn(prompt: str) -> str:
        return first_move(prompt) if prompt.endswith("a") and "Try again" in prompt.rpartition("Moves:")[0] else "no"

    runner, engine = make_runner(stubborn, prompt={"invalid_moves": 1})
    batch = play(runner, [task(0, learner(), Seat(policy=RANDOM))])
    episode = batch.episodes[0]
    assert not episode.error
    assert 0 in episode.move_actions.tolist()
    assert 1 in episode.move_actions.tolist()
    assert len(engine.requests) >= 2


def test_an_episode_does_not_depend_on_its_neighbours(make_runner: Make) -> None:
    tasks = [task(n, learner(), Seat(policy=RANDOM)) for n in range(20)]
    alone = {e.id: e.replies for e in play(make_runner(first_move, slots=1)[0], tasks[:5]).episodes}
    crowded = {e.id: e.replies for e in play(make_runner(first_move, slots=16)[0], tasks[::-1]).episodes}
    assert {id: crowded[id] for id in alone} == alone


def test_fixed_players_that_learn_are_taken_down_word_by_word(make_runner: Make, chat: Any) -> None:
    runner, engine = make_runner(first_move)
    batch = play(runner, [task(0, Seat(policy=RANDOM, learns=True), Seat(policy=RANDOM, learns=True))])
    assert not engine.requests
    rows = batch.experiences
    assert len(rows) == 2
    episode = batch.episodes[0]
    first = slice(rows.offsets[0], rows.offsets[1])
    sampled = rows.steps["action"][first][rows.steps["mask"][first]]
    said = [reply for reply, who in zip(episode.replies, episode.move_seats, strict=True) if who == 0]
    assert chat.decode(sampled.tolist()) == "".join(said)


def test_a_long_game_is_cut_and_counts_as_truncated(make_runner: Make) -> None:
    runner, _ = make_runner(first_move, prompt={"max_turns": 1})
    batch = play(runner, [task(0, learner(), learner())])
    assert batch.episodes[0].truncated
    assert batch.experiences.sequences["truncated"].all()


class Broken:
    """A game that starts well and then fails in some way."""

    def __init__(self, how: str) -> None:
        self._inner = make_text_game(GAME)
        self.spec = self._inner.spec
        self.blocks = how == "hang"
        self._how = how

    def start(self, seed: int) -> Any:
        if self._how == "start":
            raise ValueError("no luck today")
        position = self._inner.start(seed)
        broken = self

        class Position:
            def act(self, seat: int, move: str) -> None:
                if broken._how == "hang":
                    time.sleep(0.5)
                raise KeyError("lost a piece")

            def __getattr__(self, name: str) -> Any:
                return getattr(position, name)

        return Position()


@pytest.mark.parametrize("how", ["start", "act"])
def test_a_game_that_raises_costs_its_own_episode(make_runner: Make, how: str) -> None:
    runner, _ = make_runner(first_move, game=Broken(how))
    batch = play(runner, [task(0, learner(), learner())])
    assert batch.episodes[0].error.startswith("EnvError")
    assert len(batch.experiences) == 0
    assert runner.is_idle


def test_a_game_that_hangs_is_given_up_at_its_deadline(make_runner: Make) -> None:
    runner, _ = make_runner(first_move, game=Broken("hang"), deadline_s=0.05)
    batch = play(runner, [task(0, learner(), learner())])
    assert "TimeoutExceeded" in batch.episodes[0].error


# -- an engine out of reach --------------------------------------------------------------------------------------------


class Away:
    """Out of reach for some requests, of which the first is the n-th."""

    def __init__(self, engine: Any, *, first: int, requests: int) -> None:
        self._engine = engine
        self._away = range(first, first + requests)
        self.asked = 0

    async def generate(self, request: Any) -> Any:
        self.asked += 1
        if self.asked in self._away:
            raise Unreachable("http://engine/v1 cannot be reached (it was killed); is it running?")
        return await self._engine.generate(request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def be_away(runner: LanguageRunner, engine: Any, *, first: int, requests: int) -> Away:
    away = Away(engine, first=first, requests=requests)
    runner._sampler.engine = away
    return away


def test_games_that_an_engine_interrupts_are_played_again_and_come_to_the_same(make_runner: Make) -> None:
    tasks = [task(n, learner(), Seat(policy=RANDOM)) for n in range(12)]
    whole = {e.id: (e.replies, e.returns) for e in play(make_runner(first_move)[0], tasks).episodes}
    runner, engine = make_runner(first_move, patience_s=60.0)
    be_away(runner, engine, first=20, requests=15)
    batch = play(runner, tasks)
    assert len(batch.episodes) == len(tasks)
    assert not any(episode.error for episode in batch.episodes)
    assert {e.id: (e.replies, e.returns) for e in batch.episodes} == whole
    assert len(set(zip(batch.experiences.sequences["episode"], batch.experiences.sequences["seat"], strict=True))) == 12


def test_one_game_at_a_time_tries_an_engine_that_is_away_and_it_is_said_why(make_runner: Make) -> None:
    runner, engine = make_runner(first_move, patience_s=60.0)
    away = be_away(runner, engine, first=1, requests=40)
    runner.submit([task(n, learner(), Seat(policy=RANDOM)) for n in range(8)])
    runner.step()
    assert "it was killed" in runner.trouble
    asked = away.asked
    runner.step()
    assert away.asked == asked + 1
    while not runner.is_idle:
        runner.step()
    assert runner.trouble == ""
    assert runner.finished_episodes == 8


def test_an_engine_that_stays_away_stops_the_runner_with_its_name(make_runner: Make) -> None:
    runner, engine = make_runner(first_move, patience_s=0.0)
    be_away(runner, engine, first=3, requests=10**6)
    runner.submit([task(n, learner(), Seat(policy=RANDOM)) for n in range(8)])
    with pytest.raises(EngineLost, match=r"http://engine/v1 cannot be reached .*patience_s = 0 is over.* same command"):
        runner.step()
    assert runner.finished_episodes == 0
