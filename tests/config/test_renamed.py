"""Renamed keys and words: a user's file is refused with the new name, a stored config is upgraded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ludus.config import RunConfig, dotted, load_config, load_or_demo, parse_config
from ludus.config.loading.renamed import KEYS, WORDS, upgrade
from ludus.config.loading.slots import all_paths
from ludus.errors import ConfigError

OLD = """
name: old
tasks: [data/a.jsonl]
rewards: [{kind: exact}]
policy: {model: {path: models/tiny}}
explore: {games_in_flight: 8, speech: {prompt: think, rows: turn, temperature: 0.5}}
stages:
- {name: one, explore: {speech: {max_tokens: 7}}}
"""


def test_every_new_name_exists_and_no_old_one_does() -> None:
    paths = {dotted(path) for path in all_paths(RunConfig)}
    assert set(KEYS.values()) <= paths
    assert not set(KEYS) & paths
    assert {path for path, _ in WORDS} <= paths


def test_a_renamed_key_is_refused_with_the_new_names_of_what_was_written() -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config(OLD, "run.yaml")
    around, stage = str(refused.value).splitlines()
    names = "explore.prompt.template and explore.prompt.rows and explore.sampling.temperature"
    assert around == f"run.yaml:6  explore.speech: has another name now; write {names}"
    assert stage.startswith("run.yaml:8  stages.0.explore.speech: has another name now; write ")
    assert "explore.sampling.max_tokens" in stage


def test_a_renamed_mapping_without_a_known_key_is_refused_with_its_successors() -> None:
    with pytest.raises(ConfigError, match=r"explore.speech: has another name now; write explore.prompt and explore.s"):
        parse_config("name: x\ngames: [pgx:tic_tac_toe]\nexplore: {speech: null}\n", "run.yaml")


@pytest.mark.parametrize("marker", ["format.json", "stages.json"])
def test_the_stored_config_of_an_older_run_is_read_with_the_new_names(tmp_path: Path, marker: str) -> None:
    (tmp_path / "config.yaml").write_text(OLD)
    with pytest.raises(ConfigError, match="another name"):
        load_config(tmp_path / "config.yaml")
    (tmp_path / marker).write_text("{}")
    for config in (load_config(tmp_path / "config.yaml"), load_or_demo(tmp_path / "config.yaml")):
        assert (config.explore.prompt.template, config.explore.prompt.rows) == ("think", "turn")
        assert config.explore.sampling.temperature == 0.5
        assert config.stages[0].changes == {"explore": {"sampling": {"max_tokens": 7}}}


def test_what_learners_of_a_population_change_is_upgraded_too() -> None:
    learner = {"changes": {"explore": {"speech": {"top_k": 3}}}}
    upgraded = upgrade({"population": {"learners": {"words": learner}}})
    assert upgraded["population"]["learners"]["words"]["changes"] == {"explore": {"sampling": {"top_k": 3}}}


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        {"explore": 5, "stages": 3, "population": 4},
        {"explore": {"speech": []}, "stages": [7], "population": {"learners": [1]}},
        {"explore": {"speech": {"rows": 1}, "prompt": "x"}, "population": {"learners": {"a": None}}},
    ],
)
def test_a_malformed_stored_config_is_left_as_it_is(content: Any) -> None:
    assert upgrade(content) == content


def test_a_renamed_word_is_refused_with_the_new_one_and_upgraded_in_a_stored_config() -> None:
    text = "name: x\ngames: [pgx:tic_tac_toe]\ntrain: {algorithm: {objective: [{loss: sft, source: usual}]}}\n"
    with pytest.raises(ConfigError, match=r'objective.0.source: "usual" has another name now; write on_policy'):
        parse_config(text, "run.yaml")
    objective = parse_config(text, "config.yaml", stored=True).train.algorithm.objective
    assert objective is not None
    assert objective[0].source == "on_policy"
