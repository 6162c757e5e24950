"""Held-out games and tasks inside a run: measured with their own opponents, prompt and sampling, never trained on."""

from pathlib import Path

import pytest

from ludus import SingleRun, parse_config
from ludus.errors import ConfigError
from ludus.records import Episode
from ludus.storage.arrow import episodes_from_table
from ludus.storage.catalog import Catalog
from ludus.storage.jsonl import read_jsonl
from ludus.storage.segment_reader import SegmentReader

MISERE = "open_spiel:misere(game=tic_tac_toe())"
WORDS = """
name: words
games: [{key: "open_spiel:tic_tac_toe", prompt: {template: bare}, sampling: {max_tokens: 4}}]
policy: {model: {path: ludus/mini, lora: null}}
rewards: [{kind: numeric}]
explore: {games_in_flight: 8, group: 2}
train: {steps: 60, batch_episodes: 8, minibatch: 8, algorithm: {preset: grpo}}
league: {opponents: [{kind: mirror}]}
evaluate:
  games: 2
  final_games: 2
  every: 1_000_000
  pool_opponents: 0
  held_out_games: [{key: "open_spiel:kuhn_poker", against: [first], prompt: {template: plain}, sampling: {max_tokens: 2}}]
  tasks: [{path: "ludus/arithmetic?digits=1&ops=+-&count=6", split: test, name: sums, sampling: {max_tokens: 3}}]
telemetry: {tensorboard: false, every_s: 0}
"""
BOARDS = f"""
name: boards
games: [open_spiel:tic_tac_toe]
topology: split
explore: {{games_in_flight: 8}}
policy: {{network: {{kind: mlp, hidden: [8]}}}}
train: {{steps: 200, batch_episodes: 16, minibatch: 64, epochs: 1}}
evaluate: {{games: 2, final_games: 4, every: 1_000_000, pool_opponents: 0, held_out_games: ["{MISERE}"]}}
telemetry: {{tensorboard: false, every_s: 0}}
"""


def played(run: Path) -> list[Episode]:
    return [each for _, table in SegmentReader(run / "episodes").scan() for each in episodes_from_table(table)]


def test_a_language_model_that_trains_on_a_game_is_measured_on_another_and_on_tasks(tmp_path: Path) -> None:
    run = SingleRun(parse_config(WORDS, "words.yaml"), tmp_path / "run")
    assert run.run_to_end().stage == "done"
    first, *_ = (line for line in read_jsonl(run.run.metrics) if "evaluate/number" in line)
    assert {"evaluate/random/score", "evaluate/open_spiel:kuhn_poker/first/return", "evaluate/sums/success"} <= {*first}
    assert "evaluate/sums/sampled/success" in first
    assert "evaluate/first/score" not in first
    episodes = played(tmp_path / "run")
    assert {each.task.game for each in episodes if each.task.purpose == "train"} == {"open_spiel:tic_tac_toe"}
    kuhn = [each for each in episodes if each.task.game == "open_spiel:kuhn_poker"]
    assert {str(seat.policy.name) for each in kuhn for seat in each.task.seats} == {"main", "first"}
    assert not any(seat.greedy for each in kuhn for seat in each.task.seats), "cards are hidden"
    assert len(kuhn) == 4
    assert len({each.task.game_seed for each in kuhn}) == 1, "every evaluation has the same deal, from both seats"
    sums = [each for each in episodes if each.task.game == "tasks:sums"]
    assert {each.task.seats[0].greedy for each in sums} == {True, False}


def test_a_network_is_measured_on_a_game_that_it_fits_and_the_league_does_not_count_it(tmp_path: Path) -> None:
    run = SingleRun(parse_config(BOARDS, "boards.yaml"), tmp_path / "run")
    assert run.run_to_end().stage == "done"
    last = [line for line in read_jsonl(run.run.metrics) if "evaluate/number" in line][-1]
    assert (last["evaluate/random/games"], last[f"evaluate/{MISERE}/random/games"]) == (4, 4)
    with Catalog.open_readonly(run.run.catalog) as catalog:
        games = [row[0] for row in catalog.query("SELECT DISTINCT game FROM payoffs")]
    assert games == ["open_spiel:tic_tac_toe"]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (f'"{MISERE}"', "open_spiel:tic_tac_toe", "is trained on"),
        (f'"{MISERE}"', "open_spiel:kuhn_poker", "kuhn_poker"),
        (f'"{MISERE}"', "{key: open_spiel:connect_four, prompt: {template: plain}}", "is for language models"),
    ],
)
def test_held_out_games_that_make_no_sense_are_refused(old: str, new: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=problem):
        SingleRun(parse_config(BOARDS.replace(old, new), "boards.yaml"), tmp_path / "run")
