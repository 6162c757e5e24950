import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ludus.runtime import ForkLauncher, Launcher, Supervisor


@pytest.fixture
def worker_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let child processes find the test workers."""
    here = str(Path(__file__).parent / "worker_modules")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([here, os.environ.get("PYTHONPATH", "")]))


@pytest.fixture(params=["fork", pytest.param("ray", marks=pytest.mark.ray)])
def launcher_kind(request: pytest.FixtureRequest) -> str:
    """Which launcher a contract test is for."""
    return str(request.param)


@pytest.fixture
def make_launcher(launcher_kind: str, tmp_path: Path, worker_path: None) -> Callable[[], Launcher]:
    """Makes the launcher; on Ray, one with a cluster of its own."""
    if launcher_kind == "fork":
        return ForkLauncher
    from ludus.runtime.ray import Cluster, RayLauncher

    return lambda: RayLauncher(None, Cluster(tmp_path / "ray.log"))


@pytest.fixture
def supervisor(tmp_path: Path, make_launcher: Callable[[], Launcher]) -> Iterator[Supervisor]:
    """Of workers that any launcher starts: what these tests say is the contract of launchers."""
    made = Supervisor(tmp_path, max_restarts=2, launcher=make_launcher())
    yield made
    made.stop()
