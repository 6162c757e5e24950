"""Files of rows, and tasksets made of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from ludus.config import TasksetConfig
from ludus.tasks import Taskset, load_taskset

Load = Callable[..., Taskset]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write lines, objects as JSON, into a file."""

    def write(lines: Iterable[Any], name: str = "train.jsonl") -> Path:
        path = tmp_path / name
        texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
        path.write_bytes(b"".join(text + b"\n" for text in texts))
        return path

    return write


@pytest.fixture
def load(write: Callable[..., Path]) -> Load:
    """Load a taskset of these lines, with these settings."""

    def load(lines: Iterable[Any], **settings: Any) -> Taskset:
        return load_taskset(TasksetConfig.model_validate({"path": str(write(lines)), **settings}))

    return load
