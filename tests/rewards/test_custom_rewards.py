"""F17: a user's reward that raises, hangs, dies or returns junk costs its own episode and nothing else."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ludus.config.sections.rewards import CustomRewardConfig
from ludus.errors import ConfigError, RewardError
from ludus.plugins import load_plugins
from ludus.records import PolicyName, PolicyRef, Seat, Task, TaskId
from ludus.rewards.making import Surroundings, check_rewards, make_rewards
from ludus.rewards.rewards import Rewards, Scored

PLUGIN = """
import os, sys, time
from ludus.rewards import Attempt, Mark, register_reward

def custom(attempt):
    what = attempt.inputs["what"]
    if what == "length":
        return len(attempt.response) * attempt.options.get("scale", 1)
    if what == "mark":
        return Mark(value=0.5, note="because " + attempt.prompt)
    if what == "pid":
        return Mark(value=0.0, note=str(os.getpid()))
    if what == "seed":
        return Mark(value=0.0, note=f"{attempt.seed} {attempt.tokens}")
    if what == "raise":
        raise KeyError("no such thing")
    if what == "exit":
        sys.exit(0)
    if what == "die":
        os._exit(0)
    if what == "crash":
        import ctypes
        ctypes.string_at(0)
    if what == "sleep":
        time.sleep(1000)
    if what == "power":
        return 9**9**9**9
    if what == "print":
        print("to nobody", flush=True)
        sys.stdout.write("x" * 100_000)
        return 1.0
    return {"text": "1", "true": True, "none": None, "huge": 1e308, "nan": float("nan"), "list": [1.0, 2.0]}[what]

async def later(attempt):
    return 0.25

register_reward("custom", custom)
register_reward("later", later)
"""


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("plugins") / "own_rewards.py"
    path.write_text(PLUGIN)
    load_plugins([path])
    from ludus.rewards.registry import REWARDS

    yield path
    for name in ("custom", "later"):
        REWARDS.added.pop(name, None)


def make(plugin: Path, logs: Path | None = None, **config: Any) -> Rewards:
    given = CustomRewardConfig.model_validate({"kind": "custom", "name": "custom", **config})
    return make_rewards([given], Surroundings(plugins=[str(plugin)], logs=logs))


@pytest.fixture(scope="module")
def rewards(plugin: Path) -> Iterator[Rewards]:
    rewards = make(plugin, options={"scale": 2}, limit_s=60)
    yield rewards
    asyncio.run(rewards.close())


def task(what: str) -> Task:
    seat = Seat(policy=PolicyRef(name=PolicyName("main")), learns=True)
    return Task(id=TaskId(1), game="tasks:test", seed=1, seats=(seat,), inputs={"what": what, "prompt": "why?"})


def score(rewards: Rewards, what: str, response: str = "abc", **options: Any) -> Scored:
    return asyncio.run(rewards.score(task(what), response, **{"seed": 1, **options}))


def test_a_users_reward_gets_the_attempt_and_its_options(rewards: Rewards) -> None:
    assert score(rewards, "length").total == 6.0
    assert score(rewards, "mark").notes == {"custom": "because why?"}


def test_the_same_seed_gives_the_same_seed(rewards: Rewards) -> None:
    notes = [score(rewards, "seed", seed=seed, tokens=7).notes["custom"] for seed in (1, 1, 2)]
    assert notes[0] == notes[1] != notes[2]
    assert notes[0].endswith(" 7")


def test_coroutines_are_waited_for(plugin: Path) -> None:
    rewards = make(plugin, name="later")
    assert score(rewards, "length").parts == {"later": 0.25}
    asyncio.run(rewards.close())


def test_a_process_is_used_again_while_it_is_healthy(rewards: Rewards) -> None:
    first = score(rewards, "pid").notes["custom"]
    assert int(first) != os.getpid()
    with pytest.raises(RewardError):
        score(rewards, "raise")
    assert score(rewards, "pid").notes["custom"] == first


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("raise", "it raised: KeyError: 'no such thing'"),
        ("exit", "it raised: SystemExit: 0"),
        ("text", "expected a number, got the str '1'; give it as a float"),
        ("true", "expected a number, got the bool True"),
        ("none", r"expected a number, got nothing \(None\)"),
        ("huge", r"expected a number between -1e\+06 and 1e\+06, got 1e\+308"),
        ("nan", "expected a number between .* got nan"),
        ("list", "expected a number, got a list of 2; a reward is one number for one response"),
        ("unknown", "it raised: KeyError"),
    ],
)
def test_a_reward_that_raises_or_returns_junk_costs_its_own_episode(rewards: Rewards, what: str, reason: str) -> None:
    with pytest.raises(RewardError, match=f"^reward custom: {reason}"):
        score(rewards, what)
    assert score(rewards, "length").total == 6.0


@pytest.mark.parametrize(("what", "how"), [("die", "exited with code 0"), ("crash", "killed by SIGSEGV")])
def test_a_reward_whose_process_dies_costs_its_own_episode(rewards: Rewards, what: str, how: str) -> None:
    before = score(rewards, "pid").notes["custom"]
    with pytest.raises(RewardError, match=f"^reward custom: its process {how}"):
        score(rewards, what)
    assert score(rewards, "pid").notes["custom"] != before


@pytest.mark.parametrize("what", ["sleep", "power"])
def test_a_reward_that_hangs_is_ended_with_its_process(plugin: Path, tmp_path: Path, what: str) -> None:
    rewards = make(plugin, tmp_path, limit_s=1.0)
    pid = int(score(rewards, "pid").notes["custom"])
    with pytest.raises(RewardError, match=r"took longer than 1 s and was ended; where it was stands in .*reward-0.log"):
        score(rewards, what)
    assert not Path(f"/proc/{pid}/exe").exists()
    assert "own_rewards.py" in (tmp_path / "reward-0.log").read_text()
    assert score(rewards, "length").total == 3.0
    asyncio.run(rewards.close())


def test_hanging_rewards_can_be_ended_from_any_thread(plugin: Path) -> None:
    found: list[str] = []

    def hang() -> None:
        rewards = make(plugin, limit_s=1.0)
        score(rewards, "length")
        try:
            score(rewards, "sleep")
        except RewardError as error:
            found.append(str(error))
        asyncio.run(rewards.close())

    thread = threading.Thread(target=hang)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert "took longer than 1 s" in found[0]


def test_one_that_hangs_does_not_hold_up_the_others(plugin: Path) -> None:
    rewards = make(plugin, limit_s=4.0, processes=2)

    async def score_all() -> tuple[float, list[Any]]:
        await asyncio.gather(*(rewards.score(task("length"), "x", seed=1) for _ in range(4)))
        hanging = asyncio.create_task(rewards.score(task("sleep"), "x", seed=1))
        await asyncio.sleep(0.05)
        start = time.monotonic()
        others = await asyncio.gather(*(rewards.score(task("length"), "x" * n, seed=1) for n in range(8)))
        took = time.monotonic() - start
        return took, [*others, *await asyncio.gather(hanging, return_exceptions=True)]

    took, outcomes = asyncio.run(score_all())
    assert took < 3.5
    assert [scored.total for scored in outcomes[:-1]] == list(range(8))
    assert isinstance(outcomes[-1], RewardError)
    asyncio.run(rewards.close())


def test_close_ends_a_reward_that_hangs(plugin: Path) -> None:
    rewards = make(plugin, limit_s=600)

    async def close_while_hanging() -> float:
        await rewards.score(task("length"), "x", seed=1)
        hanging = asyncio.create_task(rewards.score(task("sleep"), "x", seed=1))
        await asyncio.sleep(0.2)
        start = time.monotonic()
        await rewards.close()
        with pytest.raises(RewardError, match="killed by SIGKILL"):
            await hanging
        return time.monotonic() - start

    assert asyncio.run(close_while_hanging()) < 10


def test_what_a_reward_prints_goes_to_its_log(plugin: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rewards = make(plugin, tmp_path)
    assert score(rewards, "print").total == 1.0
    asyncio.run(rewards.close())
    assert "to nobody" in (tmp_path / "reward-0.log").read_text()
    assert capfd.readouterr().out == ""


def test_a_plugin_that_cannot_be_loaded_in_the_process_is_an_error(plugin: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise ValueError('not here')")
    rewards = make(broken)
    with pytest.raises(RewardError, match=r"its process cannot be used: .*ValueError: not here"):
        score(rewards, "length")
    asyncio.run(rewards.close())


def test_names_are_checked_before_anything_runs() -> None:
    config = CustomRewardConfig(kind="custom", name="nobody_knows")
    for check in (check_rewards, make_rewards):
        with pytest.raises(ConfigError, match=r"^rewards\.nobody_knows: reward 'nobody_knows': no such reward"):
            check([config])
