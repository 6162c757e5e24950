"""What `ludus check` can say of a workflow before anything is made of it."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from ludus.config import WorkflowConfig
from ludus.config.sections import workflow as section
from ludus.errors import ConfigError
from ludus.workflows import register_agent, register_workflow
from ludus.workflows.making import check_workflow_config


def check(workflow: Any) -> None:
    check_workflow_config(TypeAdapter(WorkflowConfig).validate_python(workflow))


class NotYet:
    def __init__(self) -> None:
        raise AssertionError("a check makes nothing of a user's")

    async def run(self, task: Any, model: Any) -> str:
        return ""


def test_what_exists_passes_and_nothing_is_made() -> None:
    register_workflow("not_yet", NotYet)
    register_agent("known", lambda task: None)
    for workflow in (
        "single_turn",
        "attempts",
        {"kind": "tool_agent", "tools": ["calculator", "python"]},
        {"kind": "multi_turn", "environment": {"kind": "gymnasium", "id": "FrozenLake-v1"}},
        {"kind": "custom", "name": "not_yet"},
        {"kind": "agent", "name": "known"},
    ):
        check(workflow)


@pytest.mark.parametrize(
    ("workflow", "problem"),
    [
        ({"kind": "tool_agent", "tools": ["hammer"]}, r"workflow \(tool_agent\): tool 'hammer': no such tool"),
        ({"kind": "custom", "name": "none"}, r"workflow \(custom\): workflow 'none': no such workflow"),
        ({"kind": "agent", "name": "none"}, r"workflow \(agent\): agent 'none': no such agent"),
        (
            {"kind": "multi_turn", "environment": {"kind": "gymnasium", "id": "CartPole-v1"}},
            r"workflow \(multi_turn\): environment CartPole-v1: its observations are Box",
        ),
        (
            {"kind": "multi_turn", "action": "bowed", "environment": {"kind": "gymnasium", "id": "Taxi-v4"}},
            "action 'bowed': no such way",
        ),
    ],
)
def test_what_does_not_exist_is_named(workflow: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        check(workflow)


def test_the_kinds_that_need_rewards_are_kinds() -> None:
    kinds = {
        model.model_fields["kind"].annotation.__args__[0]
        for model in vars(section).values()
        if isinstance(model, type) and issubclass(model, section._Workflow) and "kind" in model.model_fields
    }
    assert kinds == {"single_turn", "attempts", "tool_agent", "multi_turn", "agent", "custom"}
