"""A vLLM server that ludus starts: its command line and environment, its process, and whether it answers.

For local runs and for nodes of a cluster alike. Invariant: it listens on loopback alone, and dies with the process that
started it. What a server starts itself goes with the process group of the worker that it belongs to.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import msgspec

from ludus.errors import WorkerError
from ludus.runtime import leash as leash_module

HOST = "127.0.0.1"
ANSWER_S = 10.0
"""Limit of one answer to whether it is there."""
MOST_ADAPTERS = 8
"""Adapters that may be in use at once: past versions that are met in a league, and the newest ones."""
FOR_ADAPTERS: Mapping[str, str] = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True", "VLLM_NO_USAGE_STATS": "1"}
FOR_WHOLE_MODELS: Mapping[str, str] = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1"}
"""Its routes that change weights are open to everybody on this machine."""
GPUS = "CUDA_VISIBLE_DEVICES"


class NoSuchProgram(WorkerError):
    """A server cannot be started on this machine, however often it is tried."""


class ServerOrder(msgspec.Struct, tag="serve_model", kw_only=True):
    """What to serve, and how."""

    number: int
    """Of this server among those of the run."""
    command: list[str]
    model: str
    """As the config names it: a folder, a model of ludus' own, or an id of a hub."""
    served: str
    """The name that the base model gets."""
    lora_rank: int | None
    """None: versions are whole models."""
    tensor_parallel: int = 1
    arguments: list[str] = []
    start_s: float = 1800.0


def command_line(order: ServerOrder, model: str, port: int) -> list[str]:
    """The program and its arguments; `model` is what this machine loads it by."""
    wanted = {
        "--served-model-name": order.served,
        "--host": HOST,
        "--port": str(port),
        "--logprobs-mode": "processed_logprobs",
        "--tensor-parallel-size": str(order.tensor_parallel),
    }
    switches = ["--enable-prompt-tokens-details"]
    if order.lora_rank is not None:
        switches.insert(0, "--enable-lora")
        wanted |= {"--max-loras": str(MOST_ADAPTERS), "--max-lora-rank": str(order.lora_rank)}
    else:
        switches.append("--enable-scale-out")
    own = [word for name, value in wanted.items() if name not in order.arguments for word in (name, value)]
    return [*order.command, model, *switches, *own, *order.arguments]


def environment_of(order: ServerOrder) -> Mapping[str, str]:
    """What a server needs in its environment."""
    return FOR_WHOLE_MODELS if order.lora_rank is None else FOR_ADAPTERS


def share_of_gpus(order: ServerOrder, environment: Mapping[str, str]) -> dict[str, str]:
    """On a machine that several servers of the run share: those GPUs of the visible ones that are this server's."""
    first, count = order.number * order.tensor_parallel, order.tensor_parallel
    visible = [each for each in environment.get(GPUS, "").split(",") if each]
    mine = visible[first : first + count] if visible else [str(number) for number in range(first, first + count)]
    if visible and len(mine) < count:
        raise WorkerError(f"{GPUS} shows {len(visible)} GPUs, too few for server {order.number} with {count} each")
    return {GPUS: ",".join(mine)}


class ServerProcess:
    """One server. For the thread that makes it: the kernel ends the server with that thread."""

    def __init__(self, command: Sequence[str], port: int, environment: Mapping[str, str] = {}) -> None:
        """Start it; what it says goes where this process's own words go."""
        leash = [sys.executable, "-I", "-S", str(Path(leash_module.__file__)), str(os.getpid())]
        self._program = command[0]
        self._port = port
        self.url = f"http://{HOST}:{port}/v1"
        self._process = subprocess.Popen(
            [*leash, *command], stdin=subprocess.DEVNULL, env={**os.environ, **environment}
        )

    def check_alive(self) -> None:
        """Raises WorkerError when it has ended, NoSuchProgram when it could not begin."""
        code = self._process.poll()
        if code == leash_module.NOT_FOUND:
            text = f"{self._program} is not installed here; install vllm, or name another program in"
            raise NoSuchProgram(f"{text} explore.engine.command")
        if code is not None:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
            raise WorkerError(f"the inference server {how}")

    def answers(self) -> bool:
        """Whether it lists its models now."""
        connection = HTTPConnection(HOST, self._port, timeout=ANSWER_S)
        try:
            connection.request("GET", "/v1/models", headers=_key())
            return connection.getresponse().status == HTTPStatus.OK
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

    def end(self, grace_s: float) -> None:
        """Ask it to end; make sure of it."""
        self._process.terminate()
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def free_port() -> int:
    """A port of loopback that nobody uses now. Should somebody take it first, the server ends and is started again."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _key() -> dict[str, str]:
    key = os.environ.get("VLLM_API_KEY")
    return {"Authorization": f"Bearer {key}"} if key else {}
