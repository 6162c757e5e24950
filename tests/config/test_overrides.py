"""Changes from the command line."""

from __future__ import annotations

import pytest

from ludus.config import parse_config
from ludus.config.loading.overrides import is_override
from ludus.errors import ConfigError

TEXT = """\
name: x
games: [pgx:connect_four]
league:
  opponents:
    - {kind: mirror, weight: 3}
    - {kind: lagged}
train:
  optimizer: {learning_rate: 0.5}
"""


def refused(*overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        parse_config(TEXT, "run.yaml", overrides)
    return list(error.value.problems)


def test_values_are_yaml_and_replace_what_is_there() -> None:
    changes = ["train.steps=1e6", "seed=7", "train.optimizer.learning_rate=1e-3", "topology=split", "name=y"]
    config = parse_config(TEXT, "run.yaml", [*changes, "policy.network={kind: resnet, blocks: 4}", "seed=8"])
    assert (config.train.steps, config.seed, config.train.optimizer.learning_rate) == (1_000_000, 8, 0.001)
    assert (config.topology, config.name) == ("split", "y")
    assert config.policy.network.model_dump() == {"kind": "resnet", "channels": 32, "blocks": 4}


def test_a_number_counts_the_entries_of_a_list() -> None:
    config = parse_config(TEXT, "run.yaml", ["league.opponents.0.weight=2", "league.opponents.2={kind: pfsp}"])
    assert [(one.kind, one.weight) for one in config.league.opponents] == [("mirror", 2), ("lagged", 1), ("pfsp", 1)]


def test_an_empty_value_and_null_give_the_default_back() -> None:
    assert parse_config(TEXT + "topology: split\n", "run.yaml", ["topology="]).topology is None
    assert parse_config(TEXT + "topology: split\n", "run.yaml", ["topology=null"]).topology is None


def test_a_value_may_hold_an_equals_sign() -> None:
    config = parse_config(TEXT, "run.yaml", ["games.0=open_spiel:leduc_poker(players=3)"])
    assert config.games[0].key == "open_spiel:leduc_poker(players=3)"


def test_the_values_of_the_file_are_not_changed_in_place() -> None:
    values = {"name": "x", "games": ["pgx:chess"], "train": {"steps": 5}}
    from ludus.config import build_config

    assert build_config(values, ["train.steps=6"]).train.steps == 6
    assert values["train"] == {"steps": 5}


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("train.stepz=3", "train.stepz: unknown key — did you mean train.steps?"),
        ("train.steps=x", 'train.steps: expected a whole number > 0 and ≤ 1000000000000000, got "x"'),
        ("train.steps", 'expected key.path=value, got "train.steps"'),
        ("=3", 'expected key.path=value, got "=3"'),
        ("a..b=3", 'expected key.path=value, got "a..b=3"'),
        ("seed=[1", "seed: not YAML: did not find expected ',' or ']' (while parsing a flow sequence)"),
        ("seed=*a", "seed: alias *a is not allowed; write the value out"),
        ("league.opponents.5.weight=2", "league.opponents.5.weight: there is no entry 5; the list has 2"),
        (
            "league.opponents.first=2",
            "league.opponents.first: league.opponents is a list; its entries are numbered from 0",
        ),
        ("name.x=2", 'name.x: name is "x"'),
        ("games.0.weight=2", 'games.0.weight: games.0 is "pgx:connect_four"'),
        (".".join("a" * 40) + "=1", "no such key: " + ".".join("a" * 30)[:59] + "…"),
    ],
)
def test_a_mistake_on_the_command_line_says_so(override: str, problem: str) -> None:
    assert refused(override) == [f"command line  {problem}"]


def test_an_entry_for_a_list_that_the_file_does_not_have_must_be_whole() -> None:
    with pytest.raises(ConfigError, match=r"command line  league\.opponents\.0\.kind: missing; expected mirror, "):
        parse_config("name: x\ngames: [pgx:chess]\n", "run.yaml", ["league.opponents.0.weight=2"])


@pytest.mark.parametrize(
    ("word", "answer"),
    [("seed=3", True), ("a.b.0=x", True), ("run.yaml", False), ("my file=2.yaml", False), ("runs/a=b.yaml", False)],
)
def test_a_change_can_be_told_from_a_file(word: str, answer: bool) -> None:
    assert is_override(word) is answer
