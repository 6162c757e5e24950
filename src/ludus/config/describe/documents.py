"""A config as YAML text, and the schema as JSON Schema, so that editors complete and check a config as it is written.

Invariant: the text loads back to an equal config, nulls kept, and other YAML readers read the same values in it. A
config with stages is written without its defaults, which may follow from what a stage changes.

In VS Code (with the YAML extension): `ludus check --schema > ludus.schema.json`, and as the first line of the config
`# yaml-language-server: $schema=ludus.schema.json`.
"""

from __future__ import annotations

from typing import Any

import yaml

from ludus.config.base import Model, TextOrMapping
from ludus.config.loading.yaml_text import resolve_scalar
from ludus.config.parts import SCHEDULES
from ludus.config.run import RunConfig
from ludus.config.sections.train_presets import PRESETS

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _Dumper(yaml.SafeDumper):
    """Quotes text that either YAML 1.1 or our own reading would take for something else."""


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = '"' if text and not isinstance(resolve_scalar(text), str) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def dump_config(config: RunConfig) -> str:
    """Write every key of a config, in the order of the schema; of one with stages, those that were given."""
    values = config.model_dump(mode="json", exclude_unset=bool(config.stages))
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def json_schema() -> dict[str, Any]:
    """The whole schema; descriptions are the documentation of the fields."""
    schema = RunConfig.model_json_schema()
    for definition in schema["$defs"].values():
        _drop_field_titles(definition)
    _drop_field_titles(schema)
    _require_kind(schema)
    _let_stages_change_keys(schema)
    _allow_shorthands(schema)
    _offer_names(schema)
    return {"$schema": DIALECT, **schema, "title": "ludus run"}


def _drop_field_titles(definition: dict[str, Any]) -> None:
    """pydantic makes a title out of each key ("Games In Flight"); the key itself says as much."""
    for field in definition.get("properties", {}).values():
        field.pop("title", None)


def _require_kind(schema: dict[str, Any]) -> None:
    """Where variants stand side by side, `kind` chooses between them and must be written."""
    for choice in _unions(schema):
        for variant in choice["oneOf"]:
            definition = schema["$defs"][variant["$ref"].rsplit("/", 1)[-1]]
            definition["required"] = sorted({*definition.get("required", ()), "kind"})


def _unions(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, list):
        return [found for entry in node for found in _unions(entry)]
    if not isinstance(node, dict):
        return []
    here = [node] if "discriminator" in node else []
    return here + [found for entry in node.values() for found in _unions(entry)]


def _let_stages_change_keys(schema: dict[str, Any]) -> None:
    """A stage may have any key of the run but the name, which is its own, and stages."""
    stage = schema["$defs"]["StageConfig"]
    keys = {key: value for key, value in schema["properties"].items() if key not in ("name", "stages")}
    stage["properties"] = {**stage["properties"], **keys}
    stage["additionalProperties"] = False


def _offer_names(schema: dict[str, Any]) -> None:
    """Names that plugins may add to: an editor offers those that are known."""
    for model, key, registry in (("AlgorithmConfig", "preset", PRESETS), ("OptimizerConfig", "schedule", SCHEDULES)):
        field = schema["$defs"][model]["properties"][key]
        field["anyOf"] = [{"enum": registry.names()}, {"type": field.pop("type")}]


def _allow_shorthands(schema: dict[str, Any]) -> None:
    for model in (*Model.__subclasses__(), *TextOrMapping.__subclasses__()):
        if model.shorthand and (definition := schema["$defs"].get(model.__name__)):
            text = {"type": model.shorthand_type, "description": model.shorthand}
            schema["$defs"][model.__name__] = {"anyOf": [text, definition], "description": definition["description"]}
