"""`ludus run`: start or resume a run. `ludus check`: say what a config would run, without doing anything."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from ludus.cli.arguments import Overrides, Plugins, StrictResume, hours_of, split_config
from ludus.errors import ConfigError
from ludus.plugins import load_plugins

if TYPE_CHECKING:
    from ludus.config import RunConfig
    from ludus.runs.driver import Status
    from ludus.runs.staged import AnyRun


def run(
    config: Annotated[
        Path | None, typer.Argument(help="YAML file of the run. Without it: the Connect Four demo.")
    ] = None,
    overrides: Overrides = None,
    run_dir: Annotated[Path | None, typer.Option(help="Where the run lives. Default: runs/<name>.")] = None,
    length: Annotated[
        str | None,
        typer.Option("--for", metavar="TIME", help="Train for at most 2h, 90m, 1h30m, ... in all: train.hours."),
    ] = None,
    plugin: Plugins = None,
    strict_resume: StrictResume = False,
    from_scratch: Annotated[
        bool, typer.Option("--from-scratch", help="Begin anew; the run that is there moves to earlier/ below it.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
    json_lines: Annotated[bool, typer.Option("--json", help="Print one JSON object per report.")] = False,
) -> None:
    """Start a run, or resume the one in its directory. Ctrl-C saves and stops; the same command resumes.

    \b
    Examples:
      ludus run
      ludus run examples/connect_four.yaml train.steps=1000000 seed=7
      ludus run my.yaml --for 2h
      ludus run my.yaml --plugin my_game.py --run-dir /data/runs/first
      ludus run my.yaml mode=evaluate policy.start=runs/first evaluate.versions=all
    """
    from ludus.daemon.launch import open_loop

    path, changes = split_config(config, overrides)
    changes += [] if length is None else [f"train.hours={hours_of(length)!r}"]
    plugins = [str(file) for file in plugin or []]
    loop = open_loop(
        path, changes, run_dir=run_dir, plugins=plugins, strict_resume=strict_resume, from_scratch=from_scratch
    )
    host(loop, quiet=quiet, json_lines=json_lines)


def host(loop: AnyRun, *, quiet: bool, json_lines: bool) -> None:
    """Run a loop to its end, with its progress on the terminal and clients at its socket."""
    from ludus.daemon.launch import hosted

    # The loop waits for its own update: not in the handler of a signal.
    catch_signals(lambda: threading.Thread(target=loop.stop, daemon=True).start(), lambda: loop.is_stopping)
    with hosted(loop):
        status = watch(loop, quiet=quiet, json_lines=json_lines)
    if status.stage == "stopped":
        raise typer.Exit(130)


def catch_signals(stop: Callable[[], None], is_stopping: Callable[[], bool]) -> None:
    """First SIGINT or SIGTERM: save and stop in order. Second: end at once; what is on disk is consistent anyway."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        if is_stopping():
            os._exit(130)
        stop()
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


def check(
    config: Annotated[Path | None, typer.Argument(help="YAML file of the run. Without it: the demo's config.")] = None,
    overrides: Overrides = None,
    plugin: Plugins = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of configs, for editors.")] = False,
    plan: Annotated[
        str | None,
        typer.Option(metavar="gpus=NxMGB", help="Language models: whether it fits, such as on gpus=8x80GB,host=512GB."),
    ] = None,
    model_config: Annotated[
        Path | None, typer.Option(help="With --plan: config.json of a model that is not on this machine.")
    ] = None,
) -> None:
    """Validate a config and print every derived value. All mistakes are shown at once, with exit code 2.

    Games, players, opponents and transforms are looked up, too: what passes here can run here. With runtime.address,
    the cluster is asked which nodes it has, and each worker gets its place, or the reason why it has none.

    \b
    Examples:
      ludus check examples/connect_four.yaml
      ludus check my.yaml train.minibatch=512 league.opponents.0.weight=2
      ludus check my.yaml --plugin my_game.py
      ludus check big.yaml --plan gpus=8x80GB
      ludus check --schema > ludus.schema.json
    """
    from ludus.config import describe, json_schema, load_or_demo, resolve_stages, stage_folder

    if schema:
        typer.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))
        return
    from ludus.orchestrator.cluster_check import check_cluster
    from ludus.runs.staged import check_stages, make_run

    try:
        load_plugins([str(file) for file in plugin or []])
        loaded = load_or_demo(*split_config(config, overrides))
        stages = resolve_stages(loaded)
        if plan is not None:
            _print_plan(stages, plan, model_config)
            return
        check_stages(stages)
        if loaded.population is not None and loaded.population.oracle == "learned":
            make_run(loaded)  # what its learners are is found out by whoever runs them; nothing is written
        clusters = [check_cluster(stage) for stage in stages]
    except ConfigError as error:
        for problem in error.problems:
            typer.echo(problem, err=True)
        raise typer.Exit(2) from None
    for number, stage in enumerate(stages):
        if loaded.stages:
            typer.echo(f"stage {number + 1} of {len(stages)}: {loaded.stages[number].name}")
        name = stage_folder(number, loaded.stages[number].name) if loaded.stages else ""
        rows = [*describe(stage, loaded.home / name), *clusters[number]]
        width = max(len(label) for label, _ in rows)
        for label, value in rows:
            typer.echo(f"{label:<{width}}  {value}")


def _print_plan(stages: Sequence[RunConfig], plan: str, model_config: Path | None) -> None:
    """What each stage takes on a machine; ends with code 2 if one does not fit. Its parts are not looked up."""
    from ludus.orchestrator.planner.report import plan_run, read_machine

    machine, problems = read_machine(plan), []
    for stage in stages:
        rows, problem = plan_run(stage, machine, model_config)
        width = max(len(label) for label, _ in rows)
        for label, value in rows:
            typer.echo(f"{label:<{width}}  {value}")
        problems += [problem] if problem else []
    if problems:
        raise ConfigError(*problems)
