"""What a task is asked with: a text in which `{name}` stands for the task's field of that name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ludus.config import template_parts
from ludus.errors import EnvError


def fill(template: str, inputs: Mapping[str, Any]) -> str:
    """The text for one task. Fields that are not text are written as JSON.

    Raises:
        EnvError: the task has no such field.
    """
    written = []
    for literal, field in template_parts(template):
        written.append(literal)
        if field is not None:
            written.append(_text(field, inputs))
    return "".join(written)


def _text(field: str, inputs: Mapping[str, Any]) -> str:
    if field not in inputs:
        known = ", ".join(sorted(inputs)) or "none"
        raise EnvError(f"the task has no field {field!r}, which the workflow's template needs; it has: {known}")
    value = inputs[field]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
