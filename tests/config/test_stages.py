"""Stages of one config: how they are joined with what is around them, and what is said when they are wrong."""

from __future__ import annotations

import jsonschema
import pytest

from ludus.config import dump_config, json_schema, parse_config, parse_resolved
from ludus.config.loading.derive import resolve, resolve_stages
from ludus.config.loading.stages import join, split_stages
from ludus.config.loading.yaml_text import read_yaml
from ludus.config.run import RunConfig
from ludus.errors import ConfigError

TEXT = """\
name: x
tasks: [train.jsonl]
rewards: [{kind: exact}, {kind: format, pattern: ".*"}]
policy: {model: {path: ludus/mini, lora: null}}
explore: {games_in_flight: 8, group: 4}
train: {steps: 100, optimizer: {learning_rate: 0.01}}
stages:
  - name: sft
    buffer: {expert: {sources: [train.jsonl]}}
    train: {algorithm: {preset: sft}, steps: 30}
  - {name: grpo, rewards: [{kind: exact}], train: {algorithm: {preset: grpo}}}
"""


def lines(text: str, *overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        parse_resolved(text, "run.yaml", overrides)
    return list(refused.value.problems)


def stages(text: str = TEXT, *overrides: str) -> tuple[RunConfig, ...]:
    return resolve_stages(parse_resolved(text, "run.yaml", overrides))


def test_a_stage_is_what_is_around_it_with_its_own_keys_over_it() -> None:
    sft, grpo = stages()
    assert (sft.name, grpo.name) == ("x.sft", "x.grpo")
    assert (sft.train.steps, grpo.train.steps) == (30, 100)
    assert sft.train.optimizer.learning_rate == grpo.train.optimizer.learning_rate == 0.01
    assert (len(sft.rewards), len(grpo.rewards)) == (2, 1), "lists are replaced"
    assert (sft.buffer.expert is None, grpo.buffer.expert is None) == (False, True)
    assert sft.stages == grpo.stages == ()


def test_a_stage_begins_with_the_policy_of_the_one_before_it() -> None:
    sft, grpo = stages()
    assert (sft.policy.start, grpo.policy.start) == (None, "runs/x/1_sft")
    first = stages(TEXT, "policy.start=runs/before")[0]
    assert first.policy.start == "runs/before"


def test_defaults_that_follow_from_a_stage_are_the_stage_s() -> None:
    sft, grpo = stages(TEXT.replace("preset: grpo", "preset: dr_grpo"))
    assert (sft.train.aggregation, grpo.train.aggregation) == ("token_mean", "constant_norm")


def test_a_mapping_of_another_kind_replaces_the_one_around_it() -> None:
    assert join({"a": {"kind": "x", "b": 1}}, {"a": {"kind": "y"}}) == {"a": {"kind": "y"}}
    assert join({"a": {"kind": "x", "b": 1}}, {"a": {"kind": "x", "c": 2}}) == {"a": {"kind": "x", "b": 1, "c": 2}}
    assert join({"a": {"b": 1}, "c": [1, 2]}, {"a": None, "c": [3]}) == {"a": None, "c": [3]}


def test_a_config_without_stages_is_its_own_only_stage() -> None:
    config = parse_config("name: x\ngames: [pgx:connect_four]\n", "run.yaml")
    assert split_stages(config) == (config,)
    assert resolve_stages(config) == (resolve(config),)


def test_what_a_run_in_stages_keeps_loads_back_to_the_same_stages() -> None:
    config = parse_resolved(TEXT, "run.yaml")
    again = parse_config(dump_config(config), "config.yaml")
    assert again == config
    assert resolve_stages(again) == resolve_stages(config)


@pytest.mark.parametrize(
    ("overrides", "steps"),
    [
        (["train.steps=7"], (7, 7)),
        (["stages.1.train.steps=5"], (30, 5)),
        (["train.steps=7", "stages.0.train.steps=5"], (5, 7)),
        (["stages.0.train.steps=5", "train.steps=7"], (7, 7)),
    ],
)
def test_an_override_counts_for_every_stage_or_for_the_one_it_names(
    overrides: list[str], steps: tuple[int, int]
) -> None:
    assert tuple(stage.train.steps for stage in stages(TEXT, *overrides)) == steps


def test_an_override_of_the_name_leaves_the_names_of_the_stages() -> None:
    assert [stage.name for stage in stages(TEXT, "name=y")] == ["y.sft", "y.grpo"]


def test_an_override_of_a_list_that_a_stage_replaces_counts_there_too() -> None:
    sft, grpo = stages(TEXT, "rewards.0.weight=3")
    assert sft.rewards[0].weight == grpo.rewards[0].weight == 3
    (line,) = lines(TEXT, "rewards.1.weight=3")
    assert line.startswith("command line  stages.1.rewards.1.kind: missing"), "the stage has one reward"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("steps: 30", "steps: ten"), "run.yaml:10  stages.0.train.steps: expected a whole number > 0"),
        (
            ("  - {name: grpo,", "  - {name: grpo, sead: 1,"),
            "run.yaml:11  stages.1.sead: unknown key — did you mean seed?",
        ),
        (("name: grpo", "name: sft"), "run.yaml:11  stages.1.name: sft is already the name of stages.0"),
        (("name: grpo", "name: 'a b'"), "run.yaml:11  stages.1.name: expected text such as"),
        (
            ("name: grpo", "name: grpo, policy: {start: runs/y}"),
            "run.yaml:11  stages.1.policy.start: begins with the policy of the stage before it (x.sft)",
        ),
        (("name: grpo", "name: grpo, warm_start: {}"), "run.yaml:11  stages.1.warm_start: only the first stage"),
        (("name: grpo", "name: grpo, stages: []"), "run.yaml:11  stages.1.stages: a stage has no stages of its own"),
        (
            ("name: grpo", "name: grpo, policy: {model: {lora: {rank: 4}}}"),
            "run.yaml:11  stages.1.policy.model.lora: differs from the stage before",
        ),
        (
            ("name: grpo", "name: grpo, policy: {model: {path: ludus/tiny}}"),
            "run.yaml:11  stages.1.policy.model.path: differs from the stage before",
        ),
        # What is wrong only together with a stage is said of the stage, and found where it was written.
        (("name: grpo", "name: grpo, explore: {group: 3}"), "run.yaml:11  stages.1.train.batch_episodes: 8 attempts"),
        (("group: 4", "group: 3"), "run.yaml:10  stages.0.train.batch_episodes: 8 attempts"),
        (("name: x\n", "name: x\nmode: evaluate\n"), "run.yaml:2   mode: a run in stages trains"),
    ],
)
def test_a_mistake_in_a_stage_is_reported_with_its_line_and_key_path(change: tuple[str, str], line: str) -> None:
    text = TEXT.replace(*change)
    assert text != TEXT
    assert lines(text)[0].startswith(line)


def test_a_mistake_around_the_stages_is_reported_once_beside_theirs() -> None:
    text = TEXT.replace("steps: 100", "steps: many").replace("steps: 30", "steps: ten")
    assert [line.split(": expected")[0] for line in lines(text)] == [
        "run.yaml:6   train.steps",
        "run.yaml:10  stages.0.train.steps",
    ]


def test_the_schema_knows_stages_and_their_keys() -> None:
    validator = jsonschema.Draft202012Validator(json_schema())
    assert list(validator.iter_errors(read_yaml(TEXT, "run.yaml").content)) == []
    assert list(validator.iter_errors(read_yaml(TEXT.replace("steps: 30", "steps: 0"), "run.yaml").content))
    assert list(validator.iter_errors(read_yaml(TEXT.replace("{name: grpo,", "{sead: 1,"), "run.yaml").content))
