"""Runs on tasks: what they must have, and what has no place in them."""

import pytest

from ludus.config import dump_config
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


MIXED = """
name: both
games:
  - {key: "open_spiel:tic_tac_toe", prompt: {template: bare}, sampling: {temperature: 0.7}}
tasks:
  - {path: a.jsonl, weight: 3, rewards: [{kind: exact}], workflow: attempts, sampling: {max_tokens: 5}}
  - {path: b.jsonl, rewards: [{kind: numeric}]}
policy: {model: {path: ludus/mini}}
explore: {prompt: {invalid_moves: 2}, sampling: {max_tokens: 9, top_k: 4}}
league: {opponents: [{kind: random}]}
"""


def test_games_and_tasks_may_be_in_one_run_each_with_its_own_settings_over_the_runs() -> None:
    config = resolve(parse_config(MIXED, "run.yaml"))
    game, first, second = config.games[0], *config.tasks
    assert game.prompt is not None
    assert (game.prompt.template, game.prompt.invalid_moves) == ("bare", 2)
    assert game.sampling is not None
    assert (game.sampling.temperature, game.sampling.max_tokens, game.sampling.top_k) == (0.7, 9, 4)
    assert first.sampling is not None
    assert (first.sampling.temperature, first.sampling.max_tokens, first.sampling.top_k) == (1.0, 5, 4)
    assert second.sampling is None
    assert config.sampling_by_game() == {game.key: game.sampling, "tasks:a": first.sampling}
    assert config.evaluate.against == ("random",), "games are measured against somebody, tasks or not"
    assert resolve(config) == config
    assert parse_config(dump_config(config), "config.yaml") == config


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: x\n", "games: there is nothing to do"),
        ("name: x\ngames: [{key: 'pgx:chess', prompt: {}}]\n", "games.0.prompt: is for language models"),
        (
            "name: x\ngames: [{key: 'open_spiel:chess', rewards: [{kind: exact}]}]\npolicy: {model: {path: ludus/mini}}\n",
            "games.0.rewards.0.kind: a game has no answer to compare with",
        ),
        (
            GOOD.replace("rewards: [{kind: exact}]", "evaluate: {tasks: [{path: a.jsonl, rewards: [{kind: exact}]}]}"),
            "rewards: tasks need rewards",
        ),
        (GOOD.replace("policy: {model: {path: ludus/mini}}", ""), "policy.model: tasks are for language models"),
        (GOOD.replace("rewards: [{kind: exact}]", ""), "rewards: tasks need rewards"),
        (GOOD + "league: {opponents: [{kind: random}]}\n", "league.opponents.0.kind: a task has no opponents"),
        (GOOD + "evaluate: {against: [random]}\n", "evaluate.against: a task has no opponents"),
        (GOOD + "warm_start: {games: 5}\n", "warm_start: is for games"),
        (GOOD + "explore: {group: 8}\ntrain: {batch_episodes: 12}\n", "explore.group: 8); write 16"),
        (GOOD + "evaluate: {tasks: [other/train.jsonl]}\n", "train is already the name of tasks.0"),
        ("name: x\ngames: [pgx:chess]\nrewards: [{kind: exact}]\n", "rewards: a game gives its own rewards"),
        ("name: x\ngames: [pgx:chess]\nevaluate: {tasks: [a.jsonl]}\n", "evaluate.tasks: are for language models"),
    ],
)
def test_what_cannot_hold_is_said_with_its_key(text: str, problem: str) -> None:
    assert any(problem in line for line in problems(text)), problems(text)
