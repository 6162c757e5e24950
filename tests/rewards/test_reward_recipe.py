"""The recipe for rewards is run, and names every kind of reward that there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from ludus.config import RewardConfig

PAGE = (Path(__file__).parents[2] / "docs" / "recipes" / "reward.md").read_text()


def test_the_recipe_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ludus.rewards.registry.REWARDS.added", {})
    names: dict[str, Any] = {"__name__": "documented"}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(compile(block, "reward.md", "exec"), names)  # noqa: S102 - our own documentation


def test_the_recipe_names_every_kind() -> None:
    kinds = {config.model_fields["kind"].annotation.__args__[0] for config in get_args(get_args(RewardConfig)[0])}
    assert kinds == set(re.findall(r"^\| `([a-z_]+)` \|", PAGE, re.MULTILINE))
