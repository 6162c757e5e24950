"""Runs what was handed in: as a script, as functions that others call, or as tests that call others' functions.

This is the one place of ludus where source text is compiled and executed, in a process that has given up everything
that it must not have. Nothing in this process is secret from the program, so nothing here decides anything: answers and
verdicts are read by whoever is on the other end of the channels.
"""

from __future__ import annotations

import builtins
import os
import sys
import traceback
import types
from typing import Any

from ludus.sandbox.inside.remote import Remote, Serving, describe

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
