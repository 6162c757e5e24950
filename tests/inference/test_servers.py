"""vLLM servers that ludus starts: their command, their worker, and several of them as one engine."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ludus.errors import Unreachable, WorkerError
from ludus.inference.protocol import Completion, EngineCounters, Request, Sampling
from ludus.inference.vllm import several
from ludus.inference.vllm.server import GPUS, ServerOrder, command_line, share_of_gpus
from ludus.inference.vllm.server_worker import FromServer, ServerBroken, Serving
from ludus.inference.vllm.several import ServersEngine
from ludus.records import PolicyName, PolicyRef
from ludus.runtime import Arrived, ForkLauncher, Lost, Stop, Supervisor, WorkerSpec

PROGRAM = """
import http.server, os, sys
port = int(sys.argv[sys.argv.index("--port") + 1])
class Models(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")
print("server", os.getpid(), sys.argv[1], os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
http.server.ThreadingHTTPServer(("127.0.0.1", port), Models).serve_forever()
"""


def an_order(*command: str, **fields: Any) -> ServerOrder:
    return ServerOrder(**{"number": 1, "command": list(command), "model": "m", "served": "b", "lora_rank": 4, **fields})


def test_a_server_is_told_what_ludus_needs_of_it_and_the_users_arguments_win() -> None:
    order = an_order("vllm", "serve", tensor_parallel=2, arguments=["--max-loras", "2", "--max-model-len", "99"])
    line = command_line(order, "/models/m", 8123)
    assert line[:4] == ["vllm", "serve", "/models/m", "--enable-lora"]
    assert line[-4:] == ["--max-loras", "2", "--max-model-len", "99"]
    assert line.count("--max-loras") == 1
    pairs = set(pairwise(line))
    assert {
        ("--host", "127.0.0.1"),
        ("--port", "8123"),
        ("--served-model-name", "b"),
        ("--max-lora-rank", "4"),
        ("--tensor-parallel-size", "2"),
        ("--logprobs-mode", "processed_logprobs"),
    } <= pairs


def test_servers_of_one_machine_have_gpus_of_their_own() -> None:
    order = an_order("vllm", tensor_parallel=2)
    assert share_of_gpus(order, {}) == {GPUS: "2,3"}
    assert share_of_gpus(order, {GPUS: "4,5,6,7"}) == {GPUS: "6,7"}
    with pytest.raises(WorkerError, match="shows 3 GPUs, too few for server 1 with 2 each"):
        share_of_gpus(order, {GPUS: "0,1,2"})


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    (tmp_path / "run").mkdir()
    supervisor = Supervisor(tmp_path, max_restarts=1, launcher=ForkLauncher(tmp_path / "run"))
    yield supervisor
    supervisor.stop(Stop())


def begin(supervisor: Supervisor, order: ServerOrder) -> None:
    module = "ludus.inference.vllm.server_worker"
    supervisor.start(WorkerSpec(name="engine-0", module=module, replies=FromServer))
    supervisor.send("engine-0", order)


def await_event(supervisor: Supervisor, kind: type, seconds: float = 60.0) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for event in supervisor.poll(0.05):
            found = event.message if isinstance(event, Arrived) else event
            if isinstance(found, kind):
                return found
    raise AssertionError(f"no {kind.__name__} in time")


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def await_true(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        os.sched_yield()


def test_a_lost_server_is_named_with_its_last_lines_and_ends_with_its_worker(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    order = an_order(sys.executable, str(program))
    begin(supervisor, order)
    first = await_event(supervisor, Serving)
    pid = int((tmp_path / "engine-0.log").read_text().split("server ")[1].split()[0])
    os.kill(pid, signal.SIGKILL)
    assert await_event(supervisor, ServerBroken).reason == "the inference server was killed by signal 9"
    lost = await_event(supervisor, Lost)
    assert f"server {pid} m 1" in lost.log_tail
    assert "Traceback" not in lost.log_tail

    supervisor.send("engine-0", order)
    assert await_event(supervisor, Serving).url != first.url
    pid = int((tmp_path / "engine-0.log").read_text().rsplit("server ", 1)[1].split()[0])
    supervisor.dismiss("engine-0")
    await_true(lambda: is_gone(pid))


def test_a_program_that_is_not_there_is_named_and_not_tried_again(supervisor: Supervisor) -> None:
    begin(supervisor, an_order("no-such-program"))
    broken = await_event(supervisor, ServerBroken)
    assert broken.is_final
    assert "no-such-program is not installed here" in broken.reason


class OneServer:
    """Notes the sessions that it is asked for; may be out of reach."""

    is_repeatable = False

    def __init__(self, url: str, counters: EngineCounters) -> None:
        self.url, self.counters = url, counters
        self.sessions: list[str] = []
        self.is_closed = False
        self.go = asyncio.Event()
        self.go.set()

    async def generate(self, request: Request) -> Completion:
        self.sessions.append(request.session)
        await self.go.wait()
        empty = np.zeros(1, np.float32)
        return Completion(tokens=np.ones(1, np.int32), logps=empty, values=empty, policy=request.policy, finish="stop")

    def end_session(self, session: str) -> None: ...

    async def close(self) -> None:
        self.is_closed = True


def ask(session: str, deadline_s: float = 5.0) -> Request:
    policy, sampling = PolicyRef(name=PolicyName("main")), Sampling(max_tokens=1)
    return Request(prompt=(1,), policy=policy, sampling=sampling, seed=0, session=session, deadline_s=deadline_s)


def with_servers(use: Callable[[ServersEngine, dict[str, OneServer]], Any]) -> None:
    async def work() -> None:
        made: dict[str, OneServer] = {}
        engine = ServersEngine(lambda url, counters: made.setdefault(url, OneServer(url, counters)))
        await use(engine, made)
        await engine.close()
        assert all(server.is_closed for server in made.values())

    asyncio.run(work())


SESSIONS = [f"episode-{number}/0" for number in range(60)]


def test_a_session_keeps_to_its_server_and_only_those_of_a_lost_one_move() -> None:
    async def use(engine: ServersEngine, made: dict[str, OneServer]) -> None:
        engine.take_servers(["a", "b", "c"])
        for session in SESSIONS * 2:
            await engine.generate(ask(session))
        before = {session: url for url, server in made.items() for session in server.sessions}
        assert sum(len(set(server.sessions)) for server in made.values()) == len(SESSIONS)
        assert all(len(set(server.sessions)) > 5 for server in made.values())
        engine.take_servers(["a", "c"])
        for server in made.values():
            server.sessions.clear()
        for session in SESSIONS:
            await engine.generate(ask(session))
        after = {session: url for url, server in made.items() for session in server.sessions}
        assert {session for session in SESSIONS if after[session] != before[session]} == {
            session for session in SESSIONS if before[session] == "b"
        }

    with_servers(use)


def test_a_server_that_is_left_is_closed_when_nothing_is_in_flight_there() -> None:
    async def use(engine: ServersEngine, made: dict[str, OneServer]) -> None:
        engine.take_servers(["a"])
        made["a"].go.clear()
        waiting = asyncio.ensure_future(engine.generate(ask("s")))
        await asyncio.sleep(0)
        engine.take_servers(["b"])
        await engine.generate(ask("s"))
        assert not made["a"].is_closed
        made["a"].go.set()
        await waiting
        await engine.generate(ask("s"))
        assert made["a"].is_closed

    with_servers(use)


def test_requests_wait_for_a_first_server_and_fail_as_unreachable_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(engine: ServersEngine, made: dict[str, OneServer]) -> None:
        waiting = asyncio.ensure_future(engine.generate(ask("s")))
        await asyncio.sleep(0)
        engine.take_servers(["a"])
        await waiting
        engine.take_servers([])
        monkeypatch.setattr(several, "WAIT_S", 0.01)
        with pytest.raises(Unreachable, match="no inference server of this node answers"):
            await engine.generate(ask("s"))

    with_servers(use)
