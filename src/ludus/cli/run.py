"""`ludus run`: start or resume a run."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ludus.runs.driver import Status
    from ludus.runs.staged import AnyRun


def run(
    config: Annotated[
        Path | None, typer.Argument(help="YAML file of the run. Without it: the Connect Four demo.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY.PATH=VALUE]...", help="Values that replace those of the file.")
    ] = None,
    run_dir: Annotated[Path | None, typer.Option(help="Where the run lives. Default: runs/<name>.")] = None,
    plugin: Annotated[list[Path] | None, typer.Option(help="Python file that registers your own parts.")] = None,
    strict_resume: Annotated[
        bool, typer.Option(help="Refuse to fall back when the newest checkpoint is damaged.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
    json_lines: Annotated[bool, typer.Option("--json", help="Print one JSON object per report.")] = False,
) -> None:
    """Start a run, or resume the one in its directory. Ctrl-C saves and stops; the same command resumes.

    \b
    Examples:
      ludus run
      ludus run examples/connect_four.yaml train.steps=1000000 seed=7
      ludus run my.yaml --plugin my_game.py --run-dir /data/runs/first
      ludus run my.yaml mode=evaluate policy.start=runs/first evaluate.versions=all
    """
    from ludus.cli.overrides import split_config
    from ludus.daemon.hosting import hosted
    from ludus.daemon.launch import open_loop

    path, changes = split_config(config, overrides)
    plugins = [str(file) for file in plugin or []]
    loop = open_loop(path, changes, run_dir=run_dir, plugins=plugins, strict_resume=strict_resume)
    catch_signals(loop)
    with hosted(loop):
        status = watch(loop, quiet=quiet, json_lines=json_lines)
    if status.stage == "stopped":
        raise typer.Exit(130)


def catch_signals(loop: AnyRun) -> None:
    """First SIGINT or SIGTERM: save and stop in order. Second: end at once; what is on disk is consistent anyway."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        if loop.is_stopping:
            os._exit(130)
        threading.Thread(target=loop.stop, daemon=True).start()
        print("\nstopping after this update; once more to stop at once", file=sys.stderr)

    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGTERM, on_signal)


def watch(loop: AnyRun, *, quiet: bool, json_lines: bool) -> Status:
    """Start the loop and show its progress until it ends."""
    from ludus.cli.progress import make_display

    with make_display(loop, quiet=quiet, json_lines=json_lines) as display:
        loop.start()
        while not (status := loop.wait(0.25)).is_over:
            display.show(status)
        display.show(status)
    display.summarise(status)
    return status
