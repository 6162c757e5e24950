"""Runs a program as a script (text in, text out), or tests its functions, with the right answers out of its reach.

`call_functions`: this process asks, one call at a time, and gets plain values back. `run_tests`: test code runs in a
second sandbox of its own and calls the solution in the first; the two share two pipes that carry plain values, and the
verdict comes out of a third, which the solution does not have.

`find_isolation` says what keeps programs in on this machine, found by trying. `namespaces`: no network, no other
processes, no other files; needs root, or user namespaces for everybody. `filters`: seccomp and Landlock, which need no
right at all; no second process, other processes are out of reach. Where neither works, nothing is run: there is no
level below.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ludus.errors import ConfigError, SandboxError
from ludus.sandbox.fork_server import SandboxForkServer
from ludus.sandbox.inside.values import MOST_BYTES, NotPlain, dump, encode, load, load_value
from ludus.sandbox.program import GRACE_S, Confinement, Ended, Level, Limits, Program
from ludus.sandbox.pump import Collected, Pump, Sending


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What came of a script."""

    stdout: str
    stderr: str
    is_cut: bool
    """Whether it printed more than was kept."""
    ended: Ended


def run_script(confinement: Confinement, pump: Pump, source: str, stdin: str, *, seed: int = 0) -> Ran:
    """Run a script to its end. Raises SandboxError if the sandbox failed, not the program."""
    setup = {"mode": "script", "source": source, "seed": seed}
    program = Program(confinement, pump, setup, stdin=stdin.encode(errors="replace"))
    try:
        pump.run(lambda: program.has_ended, _deadline(confinement))
        ended = program.ended()
    finally:
        program.close()
    return Ran(
        stdout=bytes(program.stdout.content).decode(errors="replace"),
        stderr=bytes(program.stderr.content).decode(errors="replace"),
        is_cut=program.stdout.is_cut or program.stderr.is_cut,
        ended=ended,
    )


LEAVING_S = 1.0
"""How long programs that are no longer needed may take to end by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A function of a solution, and what to call it with. `Name.method` calls a method of a new `Name()`."""

    name: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a call came to: a plain value, or why there is none."""

    value: Any = None
    problem: str = ""


def call_functions(
    confinement: Confinement, pump: Pump, source: str, calls: Sequence[Call], *, seed: int = 0
) -> list[Reply]:
    """Call functions one after the other; one reply for each call, whatever the solution does.

    Raises:
        SandboxError: the sandbox failed, not the solution.
    """
    their_calls, our_calls = os.pipe()
    our_replies, their_replies = os.pipe()
    setup = {"mode": "functions", "source": source, "seed": seed}
    replies, sending = pump.read(our_replies, MOST_BYTES), pump.open(our_calls)
    program = Program(confinement, pump, setup, channels=(their_calls, their_replies))
    try:
        answered = _Asking(pump, replies, sending, _deadline(confinement)).ask_all(calls)
        sending.is_last = True
        _check_sandboxes(pump, [program])
    finally:
        program.close()
    return answered


class _Asking:
    """One conversation with a solution."""

    def __init__(self, pump: Pump, replies: Collected, sending: Sending, ends: float) -> None:
        self._ends = ends
        self._pump = pump
        self._replies = replies
        self._sending = sending

    def ask_all(self, calls: Sequence[Call]) -> list[Reply]:
        first = self._read()
        if isinstance(first, str):
            return [Reply(problem=first)] * len(calls)
        if "ready" not in first:
            return [Reply(problem=str(first.get("failed", "the solution could not be loaded"))[:300])] * len(calls)
        return [self._ask(number, call) for number, call in enumerate(calls)]

    def _ask(self, number: int, call: Call) -> Reply:
        values = {"args": encode(list(call.args)), "kwargs": encode(dict(call.kwargs))}
        self._sending.content += dump({"number": number, "name": call.name, "object": None, **values})
        message = self._read()
        if not isinstance(message, dict):
            return Reply(problem=message)
        if message.get("number") != number:
            return Reply(problem="the solution answered something that was not asked")
        if "error" in message:
            return Reply(problem=str(message.get("text", message["error"]))[:300])
        try:
            return Reply(value=load_value(message.get("value")))
        except NotPlain as error:
            return Reply(problem=f"the solution returned something else than plain values: {error}")

    def _read(self) -> dict[str, Any] | str:
        """The next message, or why there is none."""
        line: bytes | None = None

        def has_line() -> bool:
            nonlocal line
            line = self._replies.take_line()
            return line is not None or self._replies.is_closed or self._replies.is_cut

        if not self._pump.run(has_line, self._ends):
            return "the solution took too long"
        if line is None:
            return "the solution answered too much" if self._replies.is_cut else "the solution has ended"
        try:
            message = load(line)
        except NotPlain as error:
            return str(error)
        return message if isinstance(message, dict) else "a line that is no message"


def run_tests(
    confinement: Confinement,
    pump: Pump,
    source: str,
    tests: Sequence[str],
    *,
    preparation: str = "",
    entry: str = "",
    seed: int = 0,
) -> list[str]:
    """Run test code against a solution; for each test why it failed, empty if it passed.

    Args:
        preparation: code that the tests need, run before them: imports, functions of theirs.
        entry: the function that the tests know as `candidate`.

    Raises:
        SandboxError: a sandbox failed, not the solution.
    """
    their_calls, tests_calls = os.pipe()
    tests_replies, their_replies = os.pipe()
    verdict_read, verdict_write = os.pipe()
    verdict = pump.read(verdict_read, MOST_BYTES)
    solution_setup = {"mode": "functions", "source": source, "seed": seed}
    test_setup = {"mode": "tests", "source": "", "seed": seed, "tests": list(tests)}
    test_setup |= {"preparation": preparation, "entry": entry}
    channels = (tests_replies, tests_calls, verdict_write)
    running: list[Program] = []
    try:
        running.append(Program(confinement, pump, solution_setup, channels=(their_calls, their_replies)))
        running.append(Program(confinement, pump, test_setup, channels=channels))
        is_told = pump.run(lambda: verdict.is_closed, _deadline(confinement))
        _check_sandboxes(pump, running)
    finally:
        if not running:
            for fd in channels:
                os.close(fd)
        for program in running:
            program.close()
    return _outcomes(verdict, len(tests)) if is_told else ["the tests took too long"] * len(tests)


def _deadline(confinement: Confinement) -> float:
    return time.monotonic() + confinement.limits.wall_s + GRACE_S


def _check_sandboxes(pump: Pump, programs: Sequence[Program]) -> None:
    """Raise SandboxError if one of them failed; a program that goes on after this moment was at least running."""
    pump.run(lambda: all(program.has_ended for program in programs), time.monotonic() + LEAVING_S)
    for program in programs:
        program.ended()


def _outcomes(verdict: Collected, count: int) -> list[str]:
    try:
        message = load(bytes(verdict.content)) if verdict.content else {}
    except NotPlain as error:
        raise SandboxError(f"the tests told {error}") from error
    outcomes = message.get("outcomes") if isinstance(message, dict) else None
    if not isinstance(outcomes, list):
        return ["the tests ended without a verdict"] * count
    if len(outcomes) != count:
        raise SandboxError(f"{count} tests told {len(outcomes)} outcomes")
    return [str(outcome) for outcome in outcomes]


_LOCK = threading.Lock()


def find_isolation() -> Level:
    """The best level that works here; tried once for each process. Raises ConfigError if none does."""
    with _LOCK:
        return _find()


@cache
def _find() -> Level:
    refusals: list[str] = []
    levels: tuple[Level, ...] = ("namespaces", "filters")
    for level in levels:
        problem = try_level(level)
        if not problem:
            return level
        refusals.append(f"{level}: {problem}")
    raise ConfigError(
        f"this machine has nothing that keeps a program in ({'; '.join(refusals)}); "
        "allow user namespaces (sysctl user.max_user_namespaces), or use a kernel with Landlock (6.2 or later)"
    )


def try_level(level: Level) -> str:
    """Why a level does not work here; empty if it does."""
    fork_server, pump = SandboxForkServer(), Pump()
    try:
        confinement = Confinement(fork_server=fork_server, level=level, limits=Limits())
        ran = run_script(confinement, pump, "print(6 * 7)", "")
    except SandboxError as error:
        return str(error)
    finally:
        pump.close()
        fork_server.close()
    return "" if ran.ended.is_clean and ran.stdout == "42\n" else f"a program {ran.ended}"
