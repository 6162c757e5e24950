import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


class TestCluster:
    """A cluster of several nodes on this machine that somebody else started."""

    __test__ = False

    def __init__(self, nodes: int) -> None:
        script = Path(__file__).with_name("cluster.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script), str(nodes)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.address = self._read()

    def remove_node(self, number: int) -> None:
        """End a node as a power failure would."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{number}\n")
        self._process.stdin.flush()
        assert self._read() == "removed"

    def close(self) -> None:
        self._process.communicate(timeout=60)

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
def cluster(token: Path, worker_path: None) -> Iterator[TestCluster]:
    made = TestCluster(2)
    yield made
    made.close()
