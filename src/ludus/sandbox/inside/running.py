"""Runs what was handed in: as a script, as functions that others call, or as tests that call others' functions.

This is the one place of ludus where source text is compiled and executed, in a process that has given up everything
that it must not have. Nothing in this process is secret from the program, so nothing here decides anything: answers and
verdicts are read by whoever is on the other end of the channels.

Calls between a solution and its tests, which do not trust each other, are lines of JSON over two pipes (`values.py`).
The solution's side keeps objects that are no plain values and gives their numbers; on the other side they are stand-ins
whose methods can be called, and nothing else.
"""

from __future__ import annotations

import builtins
import os
import sys
import traceback
import types
from typing import Any, BinaryIO

from ludus.sandbox.inside.values import (
    MOST_BYTES,
    NotPlain,
    dump,
    encode,
    load,
    load_value,
)

MOST_TEXT = 300
MOST_OBJECTS = 10_000
UNFIT = (AssertionError, UnicodeDecodeError, UnicodeEncodeError, UnicodeTranslateError, ExceptionGroup)
"""Errors that cannot be made of a text, and the one that would look like the tests' own."""


class Serving:
    """The solution's side: answers calls to its functions and to the methods of what they returned."""

    def __init__(self, calls_fd: int, replies_fd: int) -> None:
        self._calls = os.fdopen(calls_fd, "rb")
        self._replies = os.fdopen(replies_fd, "wb", buffering=0)
        self._objects: list[object] = []

    def fail(self, reason: str) -> None:
        """Say that the solution could not be loaded."""
        self._replies.write(dump({"failed": reason}))

    def serve(self, names: dict[str, Any]) -> None:
        """Answer until the other side closes."""
        offered = [name for name, value in names.items() if callable(value) and not name.startswith("_")]
        self._replies.write(dump({"ready": offered}))
        while line := self._calls.readline(MOST_BYTES):
            self._replies.write(self._answer(load(line), names))

    def _answer(self, call: dict[str, Any], names: dict[str, Any]) -> bytes:
        number = call["number"]
        try:
            function = self._find(call, names)
            arguments, named = (load_value(call[key], self._objects.__getitem__) for key in ("args", "kwargs"))
            return dump({"number": number, "value": encode(function(*arguments, **named), self._keep)})
        except BaseException as error:
            return dump({"number": number, "error": type(error).__name__, "text": describe(error)})

    def _find(self, call: dict[str, Any], names: dict[str, Any]) -> Any:
        owner = call.get("object")
        if owner is not None:
            return getattr(self._objects[owner], call["name"])
        found: Any = names[call["name"].split(".")[0]]
        for part in call["name"].split(".")[1:]:
            found = getattr(found() if isinstance(found, type) else found, part)
        return found

    def _keep(self, value: object) -> int:
        if len(self._objects) >= MOST_OBJECTS:
            raise NotPlain(f"more than {MOST_OBJECTS} objects were returned that are no plain values")
        self._objects.append(value)
        return len(self._objects) - 1


class StandIn:
    """An object that stayed with the solution: its methods can be called."""

    def __init__(self, remote: Remote, number: int) -> None:
        self._remote = remote
        self._number = number

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self._remote.call(name, args, kwargs, owner=self._number)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._remote.call("__call__", args, kwargs, owner=self._number)


class Remote:
    """The tests' side."""

    def __init__(self, replies_fd: int, calls_fd: int) -> None:
        self._replies: BinaryIO = os.fdopen(replies_fd, "rb")
        self._calls = os.fdopen(calls_fd, "wb", buffering=0)
        self._number = 0

    def functions(self) -> dict[str, Any]:
        """What the solution offers, by name, save what would hide a built-in function."""
        message = self._read()
        if "ready" not in message:
            raise RuntimeError(str(message.get("failed", "the solution could not be loaded"))[:MOST_TEXT])
        offered = [name for name in message["ready"] if isinstance(name, str) and name.isidentifier()]
        return {name: self._stand_in(name) for name in offered if not hasattr(builtins, name)}

    def call(self, name: str, args: Any, kwargs: Any, *, owner: int | None = None) -> Any:
        """Call a function or a method on the other side; what it raises is raised here."""
        self._number += 1
        call = {"number": self._number, "name": name, "object": owner}
        values = {"args": encode(list(args), _number_of), "kwargs": encode(dict(kwargs), _number_of)}
        self._calls.write(dump({**call, **values}))
        reply = self._read()
        if reply.get("number") != self._number:
            raise RuntimeError("the solution answered something that was not asked")
        if "error" in reply:
            raise _error(str(reply["error"]), str(reply.get("text", "")))
        return load_value(reply.get("value"), lambda number: StandIn(self, number))

    def tell(self, fd: int, outcomes: list[str]) -> None:
        """Say how each test went."""
        with os.fdopen(fd, "wb") as file:
            file.write(dump({"outcomes": [outcome[:MOST_TEXT] for outcome in outcomes]}))

    def _stand_in(self, name: str) -> Any:
        return lambda *args, **kwargs: self.call(name, args, kwargs)

    def _read(self) -> dict[str, Any]:
        line = self._replies.readline(MOST_BYTES + 1)
        if not line.endswith(b"\n"):
            raise EOFError("the solution has ended")
        message = load(line)
        if not isinstance(message, dict):
            raise NotPlain("a line that is no message")
        return message


def describe(error: BaseException) -> str:
    """An error in one short line; never empty."""
    try:
        text = str(error)
    except BaseException:
        text = ""
    return f"{type(error).__name__}: {text}"[:MOST_TEXT]


def _number_of(value: object) -> int:
    if isinstance(value, StandIn):
        return value._number
    raise NotPlain(f"a {type(value).__name__} cannot be handed to a solution; only plain values can")


def _error(name: str, text: str) -> Exception:
    """The built-in error of that name, or one that can be nothing that a test waits for."""
    kind = getattr(builtins, name, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)) or issubclass(kind, UNFIT):
        return RuntimeError(text[:MOST_TEXT])
    return kind(text.partition(": ")[2][:MOST_TEXT])


Setup = dict[str, Any]


def run(setup: Setup) -> int:
    """Run a program to its end; returns its exit code."""
    if "random" in setup["source"]:
        import random

        random.seed(setup["seed"])
    return {"script": _run_script, "functions": _run_functions, "tests": _run_tests}[setup["mode"]](setup)


def _run_script(setup: Setup) -> int:
    try:
        execute(setup["source"], "__main__")
    except SystemExit:
        raise
    except BaseException as error:
        traceback.print_exception(type(error), error, _own_frames(error))
        return 1
    return 0


def _run_functions(setup: Setup) -> int:
    """Load the solution, then answer calls until nobody calls any more."""
    serving = Serving(*setup["channels"])
    try:
        names = execute(setup["source"], "solution")
    except BaseException as error:  # also SystemExit: a solution that leaves while it is loaded has nothing to offer
        serving.fail(describe(error))
        return 1
    serving.serve(names)
    return 0


def _run_tests(setup: Setup) -> int:
    """Run each test by itself against the solution in the other process; tell which passed."""
    from_solution, to_solution, verdict_fd = setup["channels"]
    remote = Remote(from_solution, to_solution)
    outcomes: list[str] = []
    try:
        names = {**remote.functions(), "__name__": "__main__", "__builtins__": builtins}
        if setup["entry"] in names:
            names["candidate"] = names[setup["entry"]]
        exec(compile(setup["preparation"], "preparation.py", "exec"), names)  # noqa: S102 - see the top of the file
        for number, test in enumerate(setup["tests"]):
            outcomes.append(_outcome(test, f"test_{number}.py", names))
    except BaseException as error:
        outcomes = [describe(error)] * len(setup["tests"])
    remote.tell(verdict_fd, outcomes)
    return 0


def _outcome(test: str, name: str, names: dict[str, Any]) -> str:
    """Why a test failed; empty if it passed."""
    try:
        exec(compile(test, name, "exec"), names)  # noqa: S102 - see the top of the file
    except BaseException as error:
        return describe(error)
    return ""


def execute(source: str, name: str) -> dict[str, Any]:
    """Execute source text as a module; returns its names."""
    module = types.ModuleType(name)
    module.__dict__["__builtins__"] = builtins
    module.__dict__["__file__"] = os.path.join(os.getcwd(), "solution.py")
    sys.modules[name] = module
    exec(compile(source, "solution.py", "exec"), module.__dict__)  # noqa: S102 - see the top of the file
    return module.__dict__


def _own_frames(error: BaseException) -> types.TracebackType | None:
    """The traceback from the program's own first line on."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != "solution.py":
        frames = frames.tb_next
    return frames
