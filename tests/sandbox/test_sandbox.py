"""What the sandbox does for honest programs, and what becomes of its processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ludus.config.sections.rewards import CodeRewardConfig
from ludus.errors import ConfigError, SandboxError
from ludus.rewards.attempt import Attempt
from ludus.rewards.code import CodeReward
from ludus.sandbox import execution
from ludus.sandbox.execution import Call, Reply
from ludus.sandbox.inside.removal import remove_tree
from ludus.sandbox.program import Level, Limits
from ludus.sandbox.sandbox import Sandbox

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture(scope="module", params=["namespaces", "filters"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    level: Level = request.param
    problem = execution.try_level(level)
    if problem:
        pytest.skip(f"this machine has no {level}: {problem}")
    sandbox = Sandbox(level=level)
    yield sandbox
    sandbox.close()


def test_a_script_reads_and_prints(sandbox: Sandbox) -> None:
    ran = asyncio.run(
        sandbox.run("print(int(input()) + int(input()), file=__import__('sys').stderr)\nprint('ö')", "1\n2\n")
    )
    assert (ran.stdout, ran.stderr, ran.is_cut) == ("ö\n", "3\n", False)
    assert ran.ended.is_clean
    assert str(ran.ended) == "exited with code 0"


def test_a_large_input_arrives_whole_and_may_be_left_unread(sandbox: Sandbox) -> None:
    text = "x" * (1 << 20)
    assert asyncio.run(sandbox.run("import sys\nprint(len(sys.stdin.read()))", text)).stdout == "1048576\n"
    assert asyncio.run(sandbox.run("print('no')", text)).stdout == "no\n"


def test_an_error_shows_the_programs_own_lines(sandbox: Sandbox) -> None:
    ran = asyncio.run(sandbox.run("def f():\n    raise ValueError('why')\nf()"))
    assert ran.ended.code == 1
    assert ran.stderr.splitlines()[-1] == "ValueError: why"
    assert "ludus" not in ran.stderr


@pytest.mark.parametrize("source", ["x ===", "\x00", "if True:", "\ud800"])
def test_what_is_no_program_fails(sandbox: Sandbox, source: str) -> None:
    assert not asyncio.run(sandbox.run(source)).ended.is_clean


def test_the_main_guard_threads_and_files_work(sandbox: Sandbox) -> None:
    source = """
import threading, tempfile, atexit, dataclasses
@dataclasses.dataclass
class Point:
    x: int
if __name__ == "__main__":
    atexit.register(print, "end")
    with tempfile.TemporaryFile() as file:
        file.write(b"x")
    thread = threading.Thread(target=lambda: print(Point(1)))
    thread.start()
"""
    ran = asyncio.run(sandbox.run(source))
    assert ran.stdout == "Point(x=1)\nend\n", ran


def test_the_order_of_sets_and_seeded_chance_repeat(sandbox: Sandbox) -> None:
    source = "import random\nprint(set('abcdefgh'), random.random())"
    first, again = (asyncio.run(sandbox.run(source, seed=5)).stdout for _ in range(2))
    other = asyncio.run(sandbox.run(source, seed=6)).stdout
    assert first == again != other


def test_functions_and_methods_are_called(sandbox: Sandbox) -> None:
    source = "def add(a, b=1): return a + b\nclass Solution:\n    def two(self, xs): return (xs, {1: 2.5})"
    calls = [
        Call(name="add", args=[1]),
        Call(name="add", args=[1], kwargs={"b": 4}),
        Call(name="Solution.two", args=[[1]]),
        Call(name="add", args=["a", 1]),
        Call(name="missing"),
    ]
    replies = asyncio.run(sandbox.call(source, calls))
    assert [reply.value for reply in replies] == [2, 5, ([1], {1: 2.5}), None, None]
    assert replies[3].problem.startswith("TypeError")
    assert replies[4].problem == "KeyError: 'missing'"


def test_a_solution_that_cannot_be_loaded_answers_nothing(sandbox: Sandbox) -> None:
    replies = asyncio.run(sandbox.call("import nonsense", [Call(name="f"), Call(name="g")]))
    assert replies == [Reply(problem="ModuleNotFoundError: No module named 'nonsense'")] * 2


def test_calls_after_the_solution_died_fail(sandbox: Sandbox) -> None:
    source = "import os\ndef f(n):\n    if n: os._exit(3)\n    return n"
    replies = asyncio.run(sandbox.call(source, [Call(name="f", args=[n]) for n in (0, 1, 0)]))
    assert [bool(reply.problem) for reply in replies] == [False, True, True]


def test_large_arguments_cross(sandbox: Sandbox) -> None:
    replies = asyncio.run(sandbox.call("def f(x): return x", [Call(name="f", args=["y" * 500_000])] * 3))
    assert [len(reply.value) for reply in replies] == [500_000] * 3


def test_test_code_sees_functions_objects_and_errors(sandbox: Sandbox) -> None:
    source = """
class Stack:
    def __init__(self, *items): self.items = list(items)
    def push(self, item): self.items.append(item)
    def top(self): return self.items[-1]
def half(n):
    if n % 2: raise ValueError("odd")
    return n // 2
def size(stack): return len(stack.items)
"""
    tests = [
        "stack = Stack(1, 2)\nstack.push(3)\nassert stack.top() == 3\nassert size(stack) == 3",
        "assert candidate(8) == 4",
        "try:\n    half(3)\n    assert False\nexcept ValueError as error:\n    assert str(error) == 'odd'",
        "assert helper(half(4)) == 3",
        "assert half(4) == 3",
        "nonsense(",
    ]
    outcomes = asyncio.run(sandbox.test(source, tests, preparation="def helper(n): return n + 1", entry="half"))
    assert outcomes[:4] == ["", "", "", ""]
    assert outcomes[4].startswith("AssertionError")
    assert outcomes[5].startswith("SyntaxError")


def test_preparation_that_fails_fails_every_test(sandbox: Sandbox) -> None:
    outcomes = asyncio.run(sandbox.test("x = 1", ["pass", "pass"], preparation="1 / 0"))
    assert outcomes == ["ZeroDivisionError: division by zero"] * 2


def test_packages_are_there_only_when_they_are_wanted(sandbox: Sandbox) -> None:
    source = "import msgspec\nprint(msgspec.json.encode([1]))"
    assert "No module named" in asyncio.run(sandbox.run(source)).stderr
    with_packages = Sandbox(level=sandbox.level, packages=True)
    assert asyncio.run(with_packages.run(source)).stdout == "b'[1]'\n"
    with_packages.close()


def test_many_programs_run_at_the_same_time(sandbox: Sandbox) -> None:
    async def run_all() -> list[str]:
        ran = await asyncio.gather(*(sandbox.run(f"print({n})") for n in range(12)))
        return [each.stdout for each in ran]

    assert asyncio.run(run_all()) == [f"{n}\n" for n in range(12)]


def test_a_caller_that_gives_up_takes_its_program_along(sandbox: Sandbox) -> None:
    async def give_up() -> float:
        tasks = [asyncio.create_task(sandbox.run("import time\ntime.sleep(14)")) for _ in range(5)]
        await asyncio.sleep(0.3)
        start = time.monotonic()
        for task in reversed(tasks):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        return time.monotonic() - start

    assert asyncio.run(give_up()) < 5
    assert not children_of(fork_server_of(sandbox))


def test_close_ends_what_is_running(sandbox: Sandbox) -> None:
    async def run() -> float:
        own = Sandbox(level=sandbox.level)
        task = asyncio.create_task(own.run("import time\ntime.sleep(100)"))
        await asyncio.sleep(0.3)
        start = time.monotonic()
        await asyncio.to_thread(own.close)
        with pytest.raises(SandboxError, match="closed before the program had ended"):
            await task
        return time.monotonic() - start

    assert asyncio.run(run()) < 8


def test_a_lost_fork_server_is_made_anew(sandbox: Sandbox) -> None:
    asyncio.run(sandbox.run("pass"))
    os.kill(fork_server_of(sandbox), signal.SIGKILL)
    assert asyncio.run(sandbox.run("print(1)")).stdout == "1\n"


def test_a_sandbox_that_breaks_is_an_error_and_no_verdict(sandbox: Sandbox) -> None:
    broken = Sandbox(Limits(open_files=-5), level=sandbox.level)
    for attempt in (broken.run("print(1)"), broken.call("x = 1", [Call(name="f")]), broken.test("x = 1", ["pass"])):
        with pytest.raises(SandboxError, match=r"the sandbox failed: .*limit"):
            asyncio.run(attempt)
    broken.close()


def test_a_machine_without_isolation_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "try_level", lambda level: "not here")
    execution._find.cache_clear()
    with pytest.raises(
        ConfigError, match=r"nothing that keeps a program in \(namespaces: not here; filters: not here\)"
    ):
        execution.find_isolation()
    execution._find.cache_clear()


def test_nothing_outlives_a_parent_that_was_killed(sandbox: Sandbox, tmp_path: Path) -> None:
    driver = f"""
import asyncio, sys, threading
from ludus.sandbox.sandbox import Sandbox
sandbox = Sandbox(level={sandbox.level!r})
asyncio.run(sandbox.run("print(1)"))
print(sandbox._confinement.fork_server._process.pid, flush=True)
asyncio.run(sandbox.run("import time\\nwhile True: time.sleep(1)"))
"""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "TMPDIR": str(tmp_path)}
    parent = subprocess.Popen([sys.executable, "-c", driver], stdout=subprocess.PIPE, text=True, env=environment)
    assert parent.stdout is not None
    fork_server = int(parent.stdout.readline())
    wait_for(lambda: bool(children_of(fork_server)))
    family = [fork_server, *children_of(fork_server)]
    family += [grandchild for child in family[1:] for grandchild in children_of(child)]
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_for(lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in family))
    assert list(tmp_path.iterdir()) == []


def fork_server_of(sandbox: Sandbox) -> int:
    process = sandbox._confinement.fork_server._process
    assert process is not None
    return process.pid


def children_of(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def wait_for(condition: object, deadline_s: float = 20.0) -> None:
    assert callable(condition)
    ends = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < ends, "waited in vain"
        time.sleep(0.02)


DEEP = """
import os
for i in range(3000):
    os.mkdir("d" * 50)
    os.chdir("d" * 50)
{last}
print(6)
"""


@pytest.mark.parametrize("last", ["", "os.chmod('.', 0)"])
def test_folders_too_deep_for_a_path_fail_and_are_removed(
    last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if problem := execution.try_level("filters"):
        pytest.skip(problem)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    sandbox = Sandbox(Limits(disk_mb=1024), level="filters")
    try:
        reward = CodeReward(CodeRewardConfig(kind="code", find="whole"), sandbox)
        attempt = Attempt(response=DEEP.format(last=last), inputs={"tests": [{"input": "", "output": "6"}]})
        mark = asyncio.run(reward.mark(attempt))
        assert mark.value == 0
        assert "used too much disk" in mark.note
        assert list(tmp_path.iterdir()) == []
    finally:
        sandbox.close()


def test_what_a_program_locked_or_linked_is_removed_and_nothing_else(tmp_path: Path) -> None:
    folder, outside = tmp_path / "left", tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "file").write_text("x")
    (folder / "a" / "link").symlink_to(outside)
    os.mkfifo(folder / "pipe")
    (folder / "a" / "b").chmod(0)
    (folder / "a").chmod(0)
    folder.chmod(0)
    remove_tree(str(folder))
    assert not folder.exists()
    assert (outside / "kept").read_text() == "x"
