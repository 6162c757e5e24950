"""The policy in environments of words: Gymnasium's and users' own."""

import threading
from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from attempting import Make, attempt, part, run

from ludus.errors import ConfigError
from ludus.games.protocol import InvalidMove
from ludus.workflows.environments import EnvStep, register_environment
from ludus.workflows.gymnasium_text import plain

LAKE = {
    "kind": "gymnasium",
    "id": "FrozenLake-v1",
    "options": {"is_slippery": False},
    "rules": "Reach G; H is a hole.",
    "observe": "render",
    "actions": ["left", "down", "right", "up"],
}
PATH = ("down", "down", "right", "right", "down", "right")


def lake(**settings: Any) -> dict[str, Any]:
    return {"kind": "multi_turn", "environment": {**LAKE, **settings.pop("environment", {})}, **settings}


def walker(*path: str) -> Any:
    """Says the next word of a path, by how often it was asked."""

    def say(prompt: str) -> str:
        return path[prompt.count("Actions:") - 1]

    return say


def test_a_gymnasium_environment_is_played_to_its_end(make_runner: Make) -> None:
    runner, engine = make_runner(walker(*PATH), lake(), rewards=())
    batch = run(runner, [attempt(prompt="Go.")])
    (episode,) = batch.episodes
    assert not episode.error
    assert episode.replies == PATH
    assert episode.move_texts[0] == (
        "Reach G; H is a hole.\nGo.\n[S]FFF\nFHFH\nFFFH\nHFFG\nActions: left down right up"
    )
    assert episode.move_texts[1] == "  (Down)\nSFFF\n[F]HFH\nFFFH\nHFFG\nActions: left down right up"
    assert (episode.returns, episode.truncated) == ((1.0,), False)
    rows = batch.experiences
    assert len(rows) == 1
    assert "turn" not in rows.sequences
    assert part(rows, 0, "reward").tolist() == [0.0] * (len(part(rows, 0, "reward")) - 1) + [1.0]
    for earlier, later in zip(engine.requests, engine.requests[1:], strict=False):
        assert later.prompt[: len(earlier.prompt)] == earlier.prompt
    assert runner.take_counts()["workflow/metrics/turns/sum"] == 6.0


def test_numbers_have_words_and_an_impossible_action_may_be_tried_again(make_runner: Make) -> None:
    config = lake(environment={"observe": "observation"}, invalid_reward=-0.5, action="last_line")
    runner, _ = make_runner(walker("I think\nDOWN", "fly", "down", "down"), config, rewards=())
    (episode,) = run(runner, [attempt()]).episodes
    assert episode.move_texts[1].startswith("4\n")
    assert episode.move_texts[2].startswith("That is not possible. Try again.\nActions: left")
    assert episode.move_texts[3].startswith("8\n")
    assert (episode.returns, len(episode.replies)) == ((-0.5,), 4)  # and then it fell into a hole
    counts = runner.take_counts()
    assert counts["workflow/metrics/invalid/sum"] == 1.0


def test_invalid_replies_are_marked_for_reward_transforms(make_runner: Make) -> None:
    runner, _ = make_runner(walker("fly", "[up]", *PATH), lake(action="bracket", turns=2), rewards=())
    rows = run(runner, [attempt()]).experiences
    last = np.flatnonzero(np.diff([*part(rows, 0, "mask").astype(int), 0]) == -1)
    assert part(rows, 0, "invalid")[last].tolist() == [True, False]
    assert part(rows, 0, "format_ok")[last].tolist() == [False, True]


def test_a_limit_of_turns_cuts_the_attempt_and_leaves_what_was_earned(make_runner: Make) -> None:
    runner, _ = make_runner(walker(*(["left"] * 9)), lake(turns=3, invalid_reward=-1.0), rewards=())
    (episode,) = run(runner, [attempt()]).episodes
    assert (episode.truncated, len(episode.replies), episode.error) == (True, 3, "")


def test_a_full_context_cuts_it_too(make_runner: Make) -> None:
    runner, _ = make_runner(walker(*(["left"] * 9)), lake(), rewards=(), context=256, sampling={"max_tokens": 8})
    batch = run(runner, [attempt()])
    (episode,) = batch.episodes
    assert (episode.truncated, episode.error) == (True, "")
    assert 1 <= len(episode.replies) < 9
    assert batch.experiences.lengths[0] <= 256


def test_attempts_of_a_group_begin_alike_and_others_do_not(make_runner: Make) -> None:
    config = {"kind": "multi_turn", "environment": {"kind": "gymnasium", "id": "Blackjack-v1"}, "turns": 1}
    runner, _ = make_runner(lambda prompt: "0", config, rewards=())
    batch = run(runner, [attempt(n) for n in range(16)])
    first = {episode.task.id: episode.move_texts[0] for episode in batch.episodes}
    assert all(first[number] == first[4 * (number // 4)] for number in range(16))
    assert len(set(first.values())) > 1
    assert first[0].count(", ") == 2


class Guess:
    """Guess a number; warmer or colder."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.is_closed = False

    def reset(self, inputs: Mapping[str, Any], seed: int) -> str:
        self._secret = seed % self._most
        return f"Guess a number below {self._most}."

    def actions(self) -> None:
        return None

    def step(self, action: str) -> EnvStep:
        if not action.isdigit():
            raise InvalidMove("no number")
        off = abs(int(action) - self._secret)
        return EnvStep(observation=f"{off} off", reward=-off, done=off == 0, metrics={"off": off})

    def close(self) -> None:
        self.is_closed = True


def guesser(prompt: str) -> str:
    return str(prompt.count("off"))


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("credit", ["steps", "end"])
def test_a_users_environment_rewards_every_reply(make_runner: Make, blocks: bool, credit: str) -> None:
    made: list[Guess] = []

    def make(most: int) -> Guess:
        made.append(Guess(most))
        return made[-1]

    register_environment("guess", make, blocks=blocks)
    environment = {"kind": "custom", "name": "guess", "options": {"most": 5}}
    config = {"kind": "multi_turn", "environment": environment, "credit": credit}
    runner, _ = make_runner(guesser, config, rewards=())
    batch = run(runner, [attempt(n) for n in range(16)])
    assert not any(episode.error for episode in batch.episodes)
    assert all(environment.is_closed for environment in made)
    assert len(made) == 16
    for row, name in enumerate(batch.experiences.sequences["episode"]):
        (episode,) = [each for each in batch.episodes if each.id == name]
        tries = len(episode.replies)
        given = [-float(off) for off in range(tries - 1, -1, -1)]
        assert episode.returns == (sum(given),)
        rewards = part(batch.experiences, row, "reward")
        ends = np.flatnonzero(np.diff([*part(batch.experiences, row, "mask").astype(int), 0]) == -1)
        wanted = given if credit == "steps" else [0.0] * (tries - 1) + [sum(given)]
        assert rewards[ends].tolist() == wanted
    assert len({episode.returns for episode in batch.episodes}) > 1


def test_the_runs_rewards_are_added_to_the_environments(make_runner: Make) -> None:
    register_environment("guess", Guess)
    config = {"kind": "multi_turn", "environment": {"kind": "custom", "name": "guess", "options": {"most": 1}}}
    (episode,) = run(make_runner(lambda prompt: "0", config)[0], [attempt(answer="0")]).episodes
    assert dict(episode.rewards) == {"exact": 1.0, "steps": 0.0}
    assert episode.returns == (1.0,)


class Faulty(Guess):
    """Fails in some way."""

    release: ClassVar[threading.Event] = threading.Event()

    def reset(self, inputs: Mapping[str, Any], seed: int) -> Any:
        super().reset(inputs, seed)
        self._how = inputs["how"]
        return 7 if self._how == "reset" else "Go."

    def actions(self) -> Any:
        return [1] if self._how == "actions" else None

    def step(self, action: str) -> Any:
        match self._how:
            case "raise":
                raise KeyError("lost")
            case "tuple":
                return ("x", 1.0, True)
            case "nan":
                return EnvStep(reward=float("nan"))
            case "hang":
                self.release.wait(30)
        return EnvStep(done=True, reward=1.0)

    def close(self) -> None:
        super().close()
        if self._how == "close":
            raise OSError("gone")


def test_an_environment_that_fails_costs_its_own_episode(make_runner: Make) -> None:
    register_environment("faulty", Faulty, blocks=True)
    config = {"kind": "multi_turn", "environment": {"kind": "custom", "name": "faulty", "options": {"most": 2}}}
    runner, _ = make_runner(lambda prompt: "1", config, rewards=(), deadline_s=1.0)
    hows = ["reset", "actions", "raise", "tuple", "nan", "hang", "close", "well"]
    batch = run(runner, [attempt(n, how=how) for n, how in enumerate(hows)])
    errors = {episode.task.inputs["how"]: episode.error for episode in batch.episodes}
    Faulty.release.set()
    assert errors.pop("well") == errors.pop("close") == ""
    assert errors.pop("hang").startswith("TimeoutExceeded")
    assert errors.pop("nan").startswith("RewardError")
    assert "reset returned int" in errors.pop("reset")
    assert "an action is no word" in errors.pop("actions")
    assert "environment faulty: KeyError: 'lost'" in errors.pop("raise")
    assert "step returned tuple" in errors.pop("tuple")


class Echo(gymnasium.Env[str, str]):
    """Actions and observations are texts."""

    action_space = gymnasium.spaces.Text(8, charset="abc")
    observation_space = gymnasium.spaces.Text(8, charset="abc")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        return "abc", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return action, float(len(action)), action == "cab", False, {}


def test_texts_go_in_and_out_as_they_are(make_runner: Make) -> None:
    gymnasium.register("ludus/Echo-v0", entry_point=Echo)
    config = {"kind": "multi_turn", "environment": {"kind": "gymnasium", "id": "ludus/Echo-v0"}}

    def say(prompt: str) -> str:
        return "cab" if "not possible" in prompt else "xyz" if "ba" in prompt else "ba"

    try:
        (episode,) = run(make_runner(say, config, rewards=())[0], [attempt(prompt="")]).episodes
    finally:
        del gymnasium.registry["ludus/Echo-v0"]
    assert episode.replies == ("ba", "xyz", "cab")
    assert episode.returns == (5.0,)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"kind": "gymnasium", "id": "NoSuchLake-v1"}, "NoSuchLake-v1 cannot be made"),
        ({"kind": "gymnasium", "id": "CartPole-v1"}, "observations are Box.* observe: render"),
        ({"kind": "gymnasium", "id": "Pendulum-v1"}, "actions are Box"),
        ({"kind": "gymnasium", "id": "FrozenLake-v1", "options": {"speed": 3}}, "cannot be made: TypeError"),
        ({"kind": "gymnasium", "id": "FrozenLake-v1", "actions": ["a", "b"]}, "2 words for actions, but it has 4"),
        ({"kind": "gymnasium", "id": "FrozenLake-v1", "actions": list("aabc")}, "same word"),
        ({"kind": "gymnasium", "id": "FrozenLake-v1", "observations": ["a"]}, "1 words for observations"),
        ({"kind": "custom", "name": "no_such"}, "environment 'no_such': no such environment"),
    ],
)
def test_what_cannot_be_played_in_words_is_refused_before_the_run(
    make_runner: Make, environment: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        make_runner(None, {"kind": "multi_turn", "environment": environment})


def test_an_id_cannot_name_a_module_to_import(make_runner: Make) -> None:
    with pytest.raises(ValueError, match="pattern"):
        make_runner(None, {"kind": "multi_turn", "environment": {"kind": "gymnasium", "id": "os:Env-v0"}})


def test_colours_become_brackets() -> None:
    assert plain("\n\x1b[41mS\x1b[0mF\x1b[34;1mY\x1b[0m\x1b[2J\n") == "[S]F{Y}"
