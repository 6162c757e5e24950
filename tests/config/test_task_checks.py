"""Runs on tasks: what they must have, and what has no place in them."""

import pytest

from ludus.config.loading.derive import resolve
from ludus.config.loading.load import parse_config
from ludus.errors import ConfigError

GOOD = """
name: sums
tasks: [data/train.jsonl]
rewards: [{kind: exact}]
policy: {model: {path: ludus/mini}}
"""


def problems(text: str) -> list[str]:
    try:
        resolve(parse_config(text, "run.yaml"))
    except ConfigError as error:
        return list(error.problems)
    return []


def test_a_run_on_tasks_needs_no_opponents_and_one_seat() -> None:
    config = resolve(parse_config(GOOD, "run.yaml"))
    assert config.evaluate.against == ()
    assert config.topology == "split"
    assert config.tasks[0].name == "train"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: x\n", "games: there is nothing to do"),
        (GOOD + "games: [open_spiel:tic_tac_toe]\n", "tasks: a run has games or tasks"),
        (GOOD.replace("policy: {model: {path: ludus/mini}}", ""), "policy.model: tasks are for language models"),
        (GOOD.replace("rewards: [{kind: exact}]", ""), "rewards: nothing says what an attempt at a task is worth"),
        (GOOD + "league: {opponents: [{kind: random}]}\n", "league.opponents.0.kind: a task has no opponents"),
        (GOOD + "evaluate: {against: [random]}\n", "evaluate.against: a task has no opponents"),
        (GOOD + "warm_start: {games: 5}\n", "warm_start: is for games"),
        (GOOD + "explore: {group: 8}\ntrain: {batch_episodes: 12}\n", "explore.group: 8); write 16"),
        (GOOD + "evaluate: {tasks: [other/train.jsonl]}\n", "train is already the name of tasks.0"),
        ("name: x\ngames: [pgx:chess]\nrewards: [{kind: exact}]\n", "rewards: a game gives its own rewards"),
        ("name: x\ngames: [pgx:chess]\nevaluate: {tasks: [a.jsonl]}\n", "evaluate.tasks: are attempted in runs on"),
    ],
)
def test_what_cannot_hold_is_said_with_its_key(text: str, problem: str) -> None:
    assert any(problem in line for line in problems(text)), problems(text)
