"""Tasksets in a config: short where possible, and wrong where it can be said to be."""

from typing import Any, get_args

import jsonschema
import pytest
from pydantic import ValidationError

from ludus.config.base import template_parts
from ludus.config.sections.tasks import OrderConfig, ProcessorConfig, TasksetConfig
from ludus.tasks.curricula import CURRICULA
from ludus.tasks.processors import PROCESSORS


def make(**values: Any) -> TasksetConfig:
    return TasksetConfig.model_validate({"path": "data/train.jsonl", **values})


def kinds(union: Any) -> set[str]:
    return {get_args(member.model_fields["kind"].annotation)[0] for member in get_args(get_args(union)[0])}


def test_every_kind_of_the_config_has_code_and_the_reverse() -> None:
    assert kinds(ProcessorConfig) == set(PROCESSORS)
    assert kinds(OrderConfig) == set(CURRICULA)


def test_a_path_alone_is_a_taskset_named_after_it() -> None:
    assert TasksetConfig.model_validate("data/GSM8K-train.v2.jsonl").name == "gsm8k-train"
    assert TasksetConfig.model_validate("ludus/arithmetic?digits=2&ops=+-").name == "arithmetic"
    assert TasksetConfig.model_validate("openai/gsm8k").name == "gsm8k"
    assert TasksetConfig.model_validate("data/2024/").name == "tasks_2024"
    assert TasksetConfig.model_validate("…").name == "tasks"
    assert make(name="sums").name == "sums"


def test_a_kind_alone_stands_for_its_defaults() -> None:
    made = make(order="adaptive", processors=["deduplicate", {"kind": "score_difficulty"}])
    assert made == make(order={"kind": "adaptive"}, processors=[{"kind": "deduplicate"}, "score_difficulty"])
    assert made.order.kind == "adaptive"
    assert make().order.kind == "shuffle"


def test_a_resolved_config_reads_back_as_itself() -> None:
    made = make(
        order="adaptive", fields={"prompt": "q"}, processors=[{"kind": "filter", "field": "a", "one_of": [1, "b"]}]
    )
    assert TasksetConfig.model_validate_json(made.model_dump_json()) == made


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"order": "shufle"}, "order"),
        ({"order": {"kind": "adaptive", "target": 1.0}}, "target"),
        ({"order": {"kind": "adaptive", "lowest": 1.0}}, "adaptive"),
        ({"order": {"kind": "shuffle", "target": 0.5}}, "target"),
        ({"processors": [{"kind": "filter", "field": "prompt"}]}, "filter"),
        ({"processors": [{"kind": "map", "fields": {"prompt": "{a.b}"}}]}, "prompt"),
        ({"processors": [{"kind": "map", "fields": {"row": "x"}}]}, "[key]"),
        ({"fields": {"group_seed": "x"}}, "[key]"),
        ({"fields": {"not a name": "x"}}, "[key]"),
        ({"name": "Sums"}, "name"),
        ({"weight": 0}, "weight"),
        ({"limit": 0}, "limit"),
        ({"splitt": "train"}, "splitt"),
    ],
)
def test_mistakes_are_refused_at_their_place(values: dict[str, Any], place: str) -> None:
    with pytest.raises(ValidationError) as caught:
        make(**values)
    assert caught.value.errors()[0]["loc"][-1] == place


@pytest.mark.parametrize(
    "text", ["{", "}", "{}", "{0}", "{a.b}", "{a[0]}", "{a!r}", "{a:>99999}", "{a:{b}}", "{__class__.x}", "{a b}"]
)
def test_templates_hold_names_of_fields_and_nothing_else(text: str) -> None:
    with pytest.raises(ValueError, match=r"names of fields in braces"):
        template_parts(text)


def test_braces_are_written_twice() -> None:
    assert template_parts("{{x}} {a}!") == (("{", None), ("x}", None), (" ", "a"), ("!", None))


def test_editors_accept_short_and_long_forms() -> None:
    schema = TasksetConfig.model_json_schema()
    jsonschema.validate({"path": "x.jsonl", "order": "shuffle", "processors": ["deduplicate"]}, schema)
    jsonschema.validate({"path": "x.jsonl", "order": {"kind": "adaptive", "target": 0.6}}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"path": "x.jsonl", "order": {"kind": "adaptive", "target": "high"}}, schema)
