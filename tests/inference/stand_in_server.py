"""The fake vLLM server as a program that is started as `vllm serve` is: `stand_in_server.py MODEL --port P ...`.

It writes its process id and the adapters that it loads into a file of its own in `--notes`, a folder.
"""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from fake_vllm import FakeVllm

from ludus.http.server import bind, run


class Lines(list[str]):
    """A list whose entries are also written down, where they outlive a SIGKILL."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", buffering=1)

    def append(self, line: str) -> None:
        super().append(line)
        print(line, file=self._file)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--notes", type=Path, required=True)
    parser.add_argument("--lies", type=float, default=0.0)
    parser.add_argument("--enable-scale-out", action="store_true")
    arguments, _ = parser.parse_known_args()
    assert (arguments.model / "config.json").is_file()
    is_whole = arguments.enable_scale_out
    assert os.environ["VLLM_SERVER_DEV_MODE" if is_whole else "VLLM_ALLOW_RUNTIME_LORA_UPDATING"] in ("1", "True")
    server = FakeVllm(processed=True, whole={"lies": arguments.lies} if is_whole else None)
    with bind(arguments.host, arguments.port, token="") as listener:
        server.log = server.whole.calls = Lines(arguments.notes / f"{os.getpid()}.txt")
        print(f"the stand-in listens at port {arguments.port}", flush=True)
        run(server.app(), listener)


if __name__ == "__main__":
    main()
