import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


class TestCluster:
    """A cluster of several nodes on this machine that somebody else started."""

    __test__ = False

    def __init__(self, *nodes: dict[str, Any]) -> None:
        """Each node by its keywords, such as `num_cpus`."""
        script = Path(__file__).with_name("cluster.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script), json.dumps(nodes)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.address = self._read()
        assert self.address, "the cluster could not be started"

    def remove_node(self, number: int) -> None:
        """End a node as a power failure would."""
        self._order(number)

    def add_node(self, **node: Any) -> None:
        """Have another node join."""
        self._order(node)

    def close(self) -> None:
        self._process.communicate(timeout=60)

    def _order(self, order: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(order)}\n")
        self._process.stdin.flush()
        assert self._read() == "done"

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The token of the cluster, which this process has, too."""
    path = tmp_path / "token"
    path.write_text("0123456789abcdef" * 4)
    path.chmod(0o600)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(path))
    return path


@pytest.fixture
def make_cluster(token: Path, worker_path: None) -> Iterator[Callable[..., TestCluster]]:
    """Makes one with these nodes, each by its keywords."""
    made: list[TestCluster] = []

    def make(*nodes: dict[str, Any]) -> TestCluster:
        made.append(TestCluster(*nodes))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def cluster(make_cluster: Callable[..., TestCluster]) -> TestCluster:
    return make_cluster({"num_cpus": 2}, {"num_cpus": 2})
