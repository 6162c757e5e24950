"""The recipe for tasksets is run: its config loads, its processor and its curriculum work."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter

from ludus.config import TasksetConfig
from ludus.tasks import TasksetTasks, curricula, load_taskset, processors
from ludus.tasks.curricula import CURRICULA
from ludus.tasks.processors import PROCESSORS

PAGE = (Path(__file__).parents[2] / "docs" / "recipes" / "taskset.md").read_text()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(processors.OWN, "added", {})
    monkeypatch.setattr(curricula.OWN, "added", {})
    names: dict[str, Any] = {"__name__": "documented"}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(block, names)  # noqa: S102 - our own documentation
    return names


def test_the_config_of_the_recipe_is_valid() -> None:
    (block,) = re.findall(r"^```(?:yaml)?\n(tasks:.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    sets = TypeAdapter(list[TasksetConfig]).validate_python(yaml.safe_load(block)["tasks"])
    assert [each.name for each in sets] == ["train", "olympiad"]


def test_every_processor_and_order_is_in_the_recipe() -> None:
    listed = set(re.findall(r"^\| `([a-z_]+)` \|", PAGE, re.MULTILINE))
    assert set(PROCESSORS) | set(CURRICULA) <= listed


@pytest.mark.usefixtures("names")
def test_the_recipes_parts_work_in_a_set() -> None:
    taskset = load_taskset(
        TasksetConfig.model_validate(
            {
                "path": "ludus/arithmetic?digits=2&ops=*&count=200",
                "processors": [{"kind": "custom", "name": "keep_whole_answers", "options": {"most": 100}}],
                "order": {"kind": "custom", "name": "worst_first"},
            }
        )
    )
    assert 0 < len(taskset) < 200
    assert all(int(row["answer"]) <= 100 for row in taskset.rows)
    assert len({TasksetTasks([taskset], seed=0).training(n, 1, lambda *_: ())[0].inputs["row"] for n in range(8)}) == 8
