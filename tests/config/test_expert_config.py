"""Where expert rows and pairs come from, as people write it."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from ludus.config import json_schema
from ludus.config.sections.buffer import BotGamesConfig, ExpertConfig, PairsConfig, RowFileConfig, RunEpisodesConfig


def test_path_alone_stands_for_a_file() -> None:
    config = ExpertConfig.model_validate({"sources": ["a.jsonl", {"path": "b.parquet", "limit": 3}]})
    assert config.sources == (RowFileConfig(path="a.jsonl"), RowFileConfig(path="b.parquet", limit=3))
    assert PairsConfig.model_validate({"sources": ["p.jsonl"]}).sources == (RowFileConfig(path="p.jsonl"),)


@pytest.mark.parametrize(
    ("sources", "is_valid"),
    [
        (["a.jsonl", {"path": "b", "limit": 3}, {"kind": "file", "path": "c"}, {"kind": "bots"}], True),
        ([{"kind": "run", "run": "runs/x"}], True),
        ([{"path": "b", "limits": 3}], False),
        ([{"kind": "run"}], False),
        ([{"limit": 3}], False),
    ],
)
def test_schema_for_editors_accepts_what_the_config_accepts(sources: Any, is_valid: bool) -> None:
    validator = jsonschema.Draft202012Validator(json_schema())
    values = {"name": "x", "games": ["pgx:connect_four"], "buffer": {"expert": {"sources": sources}}}
    assert (not list(validator.iter_errors(values))) == is_valid
    if not is_valid:
        with pytest.raises(ValidationError):
            ExpertConfig.model_validate({"sources": sources})


def test_other_kinds_are_told_apart() -> None:
    sources = [{"kind": "run", "run": "runs/x", "policy": "main@3"}, {"kind": "bots", "players": ["random", "mcts-9"]}]
    first, second = ExpertConfig.model_validate({"sources": sources}).sources
    assert isinstance(first, RunEpisodesConfig)
    assert isinstance(second, BotGamesConfig)
    again = ExpertConfig.model_validate_json(ExpertConfig.model_validate({"sources": sources}).model_dump_json())
    assert again.sources == (first, second)


@pytest.mark.parametrize(
    "values",
    [
        {"sources": []},
        {"sources": [{"kind": "book"}]},
        {"sources": [{"kind": "run", "run": "x", "policy": "MAIN"}]},
        {"sources": ["a.jsonl"], "rows": 0},
        {"sources": [{"path": "a", "template": "{prompt.x}"}]},
        {"sources": [{"path": "a", "fields": {"row": "x"}}]},
    ],
)
def test_what_makes_no_sense_is_refused(values: Any) -> None:
    with pytest.raises(ValidationError):
        ExpertConfig.model_validate(values)


def test_file_is_asked_for_as_a_taskset() -> None:
    config = RowFileConfig(path="a.jsonl", fields={"response": "solution"}, limit=5, strict=True)
    taskset = config.as_taskset(name="expert")
    assert (taskset.path, taskset.limit, taskset.strict) == ("a.jsonl", 5, True)
    assert taskset.fields == {"response": "solution"}
