"""The fake vLLM server of tests/inference as a process of its own, which can be killed and started again.

Run as a script it is that process: it says `ready` when it can be reached, and writes down which adapters it loads.
"""

import subprocess
import sys
from pathlib import Path

ENGINE_TESTS = Path(__file__).parents[1] / "inference"


class MortalVllm:
    """One port at which a server lives, dies and lives again. Each life has forgotten the adapters of the one before."""

    def __init__(self, folder: Path) -> None:
        sys.path.insert(0, str(ENGINE_TESTS))
        from scripted_endpoint import unused_port

        self.url = f"http://127.0.0.1:{unused_port()}/v1"
        self._folder = folder
        self._lives = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it can be reached."""
        port = self.url.removesuffix("/v1").rpartition(":")[2]
        self._lives += 1
        command = [sys.executable, __file__, port, str(self._log(self._lives))]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def kill(self) -> None:
        """SIGKILL, as often as one likes."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def loaded(self) -> list[list[str]]:
        """For each life, the adapters that it was told to load, such as `main@3`."""
        logs = [self._log(life + 1).read_text().splitlines() for life in range(self._lives)]
        return [[line.split()[1].partition("-")[0] for line in log if line.startswith("load")] for log in logs]

    def _log(self, life: int) -> Path:
        return self._folder / f"vllm-{life}.log"


def main(port: int, log: Path) -> None:
    sys.path.insert(0, str(ENGINE_TESTS))
    from fake_vllm import FakeVllm

    from ludus.http.server import bind, run

    server = FakeVllm()
    with log.open("w", buffering=1) as lines, bind("127.0.0.1", port, token="") as listener:
        server.log = Lines(lines)
        print("ready", flush=True)
        run(server.app(), listener)


class Lines(list[str]):
    """A list whose entries are also written down, where they outlive a SIGKILL."""

    def __init__(self, file: object) -> None:
        self._file = file

    def append(self, line: str) -> None:
        super().append(line)
        print(line, file=self._file)  # type: ignore[call-overload]


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
