import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ludus.runtime import Supervisor


@pytest.fixture
def worker_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let child processes find the test workers."""
    here = str(Path(__file__).parent / "worker_modules")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([here, os.environ.get("PYTHONPATH", "")]))


@pytest.fixture
def supervisor(tmp_path: Path, worker_path: None) -> Iterator[Supervisor]:
    made = Supervisor(tmp_path, max_restarts=2)
    yield made
    made.stop()
