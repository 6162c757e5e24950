"""The JSON schema that editors use, and the YAML that a run keeps."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
import yaml

from ludus.config import (
    build_config,
    demo_config,
    demo_text,
    dump_config,
    json_schema,
    load_config,
    parse_config,
    resolve,
)
from ludus.config.loading.slots import all_paths
from ludus.config.loading.yaml_text import read_yaml
from ludus.config.run import RunConfig
from ludus.errors import ConfigError
from ludus.plugins import load_plugins

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.y*ml"))


def schema_errors(content: object) -> list[str]:
    validator = jsonschema.Draft202012Validator(json_schema())
    return [error.message for error in validator.iter_errors(content)]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_loads_resolves_and_fits_the_schema(path: Path) -> None:
    load_plugins(path.parent.glob(f"{path.stem}.py"))
    config = resolve(load_config(path))
    assert parse_config(dump_config(config), "config.yaml") == config
    assert schema_errors(read_yaml(path.read_bytes(), path.name).content) == []
    assert config.name == path.stem


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_reads_the_same_with_a_yaml_1_1_reader_but_for_exponents(path: Path) -> None:
    ours, theirs = read_yaml(path.read_bytes(), path.name).content, yaml.safe_load(path.read_bytes())
    assert str(ours).replace("'", "") == str(theirs).replace("1e-3", "0.001").replace("3e-3", "0.003").replace("'", "")


def test_the_connect_four_example_is_the_demo() -> None:
    (example,) = [path for path in EXAMPLES if path.name == "connect_four.yaml"]
    assert load_config(example) == demo_config()
    assert schema_errors(read_yaml(demo_text(), "demo.yaml").content) == []


def test_the_schema_is_a_schema_and_says_what_it_is() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert (schema["title"], schema["required"]) == ("ludus run", ["name"])


def test_documented_fields_carry_their_documentation() -> None:
    schema = json_schema()
    assert schema["properties"]["schedule"]["description"].startswith("`sync`: play, then train")
    assert "Steps per optimizer step" in schema["$defs"]["TrainConfig"]["properties"]["minibatch"]["description"]
    assert all("description" in definition for definition in schema["$defs"].values())


@pytest.mark.parametrize(
    "change",
    [
        "sead: 1",
        "seed: -1",
        "games: [3]",
        "games: [{weight: 2}]",
        "policy: {network: {hidden: [3]}}",
        "policy: {network: {kind: cnn}}",
        "policy: {network: {kind: resnet, hidden: [3]}}",
        "train: {steps: 0}",
        "schedule: often",
    ],
)
def test_the_schema_refuses_what_the_loader_refuses(change: str) -> None:
    text = "name: x\ngames: [pgx:chess]\n"
    text = "name: x\n" + change if change.startswith("games") else text + change
    with pytest.raises(ConfigError):
        parse_config(text, "run.yaml")
    assert schema_errors(read_yaml(text, "run.yaml").content)


def test_a_dump_holds_every_key_nulls_too() -> None:
    content = yaml.safe_load(dump_config(demo_config()))
    assert list(content) == list(RunConfig.model_fields)
    assert content["topology"] is None
    top = {str(path[0]) for path in all_paths(RunConfig)}
    assert set(content) == top


@pytest.mark.parametrize(
    "text", ["no", "1e-3", "null", "~", "12", "0o17", "1:30", "true", "a: b", "# x", "- x", "é", "<<", "1_0"]
)
def test_text_that_looks_like_something_else_survives_a_round_trip(text: str) -> None:
    options = {"a": text, text: 1}
    config = build_config(
        {
            "name": "x",
            "games": ["pgx:chess"],
            "experience": {"step": [{"kind": "custom", "name": text, "options": options}]},
        }
    )
    dumped = dump_config(config)
    assert parse_config(dumped, "config.yaml") == config
    assert yaml.safe_load(dumped)["experience"]["step"][0]["name"] == text


@pytest.mark.parametrize("number", [1e-300, 1e300, 25 / 3, 0.1 + 0.2, 1.0, 1e16, 123456789.123456789])
def test_numbers_survive_a_round_trip_to_the_last_bit(number: float) -> None:
    values = {"name": "x", "games": [{"key": "pgx:chess", "weight": number}]}
    config = build_config(values)
    assert parse_config(dump_config(config), "config.yaml").games[0].weight == number
