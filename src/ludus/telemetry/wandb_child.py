"""Weights & Biases in a process of its own: JSON lines in, a Weights & Biases run out.

Run as a file (`python -P wandb_child.py`), so that it imports nothing of ludus. Standard input brings one object with
the arguments of `wandb.init`, then metric lines; its end is the end of the run. Standard output says how many lines
were logged, and what went wrong; whatever wandb prints goes to standard error.

Invariant: when nobody holds the other end of standard input any more, this process and wandb's are gone within
`finish_s`, even when wandb hangs.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import threading
import time
from collections.abc import Iterable
from typing import Any, BinaryIO

INIT_TIMEOUT_S = 20.0
"""How long the server is waited for before the run goes on offline."""
PATIENCE_S = 2.5
"""The same, when everything to be logged is there already and the run is over."""


def main() -> None:
    """Serve one run."""
    source, out = os.fdopen(os.dup(0), "rb"), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    try:
        _serve(source, out)
    except Exception as error:
        _tell(out, error=_words(error))
        _end(1)
    _end(0)


def _serve(source: BinaryIO, out: int) -> None:
    order = json.loads(source.readline())
    settled = threading.Event()
    threading.Thread(target=_watch, args=(source.fileno(), settled, order["finish_s"]), daemon=True).start()
    run = _begin(order, settled, out)
    exit_code = _log(run, source, out)
    run.finish(exit_code=exit_code)
    import wandb

    wandb.teardown(exit_code)
    _tell(out, finished=True)


def _begin(order: dict[str, Any], settled: threading.Event, out: int) -> Any:
    """A run, as asked for; offline, when the server cannot be had. `settled` is set when no server is waited for."""
    import wandb

    wanted = {"init_timeout": INIT_TIMEOUT_S, "login_timeout": INIT_TIMEOUT_S, **order["settings"]}
    known = {key: value for key, value in wanted.items() if key in wandb.Settings.model_fields}
    arguments = order["init"]
    if (arguments["mode"] or os.environ.get("WANDB_MODE")) == "offline":
        settled.set()
    try:
        run = wandb.init(**arguments, settings=wandb.Settings(**known))
    except Exception as error:
        if settled.is_set():
            raise
        settled.set()
        _tell(out, warning=_words(error))
        with contextlib.suppress(Exception):  # its service may be gone
            wandb.teardown()
        run = wandb.init(**{**arguments, "mode": "offline"}, settings=wandb.Settings(**known))
    settled.set()
    run.define_metric("step")
    run.define_metric("*", step_metric="step")
    return run


def _log(run: Any, source: Iterable[bytes], out: int) -> int:
    """Log every line until there are no more; returns the exit code of the run."""
    exit_code = 0
    for line in source:
        message = json.loads(line)
        exit_code = message.get("exit_code", exit_code)
        if "metrics" in message:
            run.log(message["metrics"])
            _tell(out, logged=1)
    return exit_code


def _watch(source: int, settled: threading.Event, finish_s: float) -> None:
    """Give the run a few seconds more when its other end is gone.

    One that still waits for the server goes on offline: without its service, `wandb.init` fails at once.
    """
    poller = select.poll()
    poller.register(source, 0)
    poller.poll()
    deadline = time.monotonic() + finish_s
    settled.wait(PATIENCE_S)
    while time.monotonic() < deadline and not settled.wait(0.1):
        kill_children(os.getpid())
    threading.Event().wait(max(deadline - time.monotonic(), 0.0))
    _end(1)


def _end(code: int) -> None:
    """End at once, and wandb's own processes with this one; a clean end has left none."""
    kill_children(os.getpid())
    os._exit(code)


def kill_children(of: int) -> None:
    """Kill what a process has started; wandb's service has a session of its own, so no group names them all."""
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{of}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{of}/task/{task}/children") as children:
                for pid in children.read().split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)


def _words(error: Exception) -> str:
    return ": ".join(part for part in (type(error).__name__, " ".join(str(error).split())) if part)


def _tell(out: int, **message: Any) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more; what is to be logged is logged all the same
        os.write(out, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    main()
