"""`ludus status`, `pause`, `resume`, `checkpoint`, `stop`: ask a live run, wherever it was started."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ludus.cli.arguments import AsJson, Run, need_run
from ludus.errors import LudusError

if TYPE_CHECKING:
    from ludus.daemon.messages import Payload, Status

LiveRun = Annotated[Path, typer.Argument(help="Directory of a run that is going on: of ludus run, daemon or tui.")]
ANSWER_S = 30.0
CHECKPOINT_S = 330.0
POLL_S = 0.1


def status(run: Run, as_json: AsJson = False) -> None:
    """Say what a run is doing, or how it was left.

    Example: ludus status runs/connect_four
    """
    found = _status(run)
    typer.echo(found.model_dump_json(exclude_none=True) if as_json else "\n".join(status_lines(found)))


def pause(run: LiveRun) -> None:
    """Pause a run after its current update; it keeps its memory and workers.

    Example: ludus pause runs/connect_four
    """
    from ludus.daemon.messages import Pause

    _ask(run, Pause())
    typer.echo("pausing after this update")
    _report(_wait_for(run, lambda found: found.stage == "PAUSED"))


def resume(run: LiveRun) -> None:
    """Resume a paused run.

    A run that was stopped is resumed by the command that started it.

    Example: ludus resume runs/connect_four
    """
    from ludus.daemon.messages import Resume

    _ask(run, Resume())
    _report(_wait_for(run, lambda found: found.stage != "PAUSED"))


def checkpoint(run: LiveRun) -> None:
    """Save the state of a run now, after its current update.

    Example: ludus checkpoint runs/connect_four
    """
    from ludus.daemon.messages import MakeCheckpoint

    typer.echo("saving after this update")
    result = _ask(run, MakeCheckpoint(), CHECKPOINT_S)
    if result is None:
        raise LudusError(f"the process of {run} ended before it answered; ludus status {run} says how")
    typer.echo(f"checkpoint of update {result['update']:,} at {result['steps']:,} steps: {result['path']}")


def stop(run: LiveRun) -> None:
    """Save a run and end its process; the command that started it resumes it.

    Example: ludus stop runs/connect_four
    """
    from ludus.daemon.messages import Stop
    from ludus.daemon.run_watch import RunWatch
    from ludus.storage.lock import RunLock

    if (holder := RunLock.holder(run)) is not None:
        typer.echo(f"stopping process {holder['pid']} after this update")
    _ask(run, Stop(), None)
    while RunLock.holder(run) is not None:  # it has answered, and puts its things away
        time.sleep(POLL_S)
    _report(RunWatch(run).status())


def status_lines(found: Status) -> list[str]:
    """What a person wants to know first."""
    from ludus.reports.number_text import duration, steps_done
    from ludus.reports.run_facts import measured_text

    activity = f", {found.activity}" if found.activity.lower() != found.stage.lower() else ""
    done = found.share_done or (found.steps / found.total_steps if found.total_steps else 0.0)
    share = f" ({min(done, 1):.0%})" if done or found.total_steps else ""
    speed = f", {found.steps_per_s:,.0f}/s" if found.steps_per_s else ""
    left = f", {duration(found.eta_s)} left" if found.eta_s is not None else ""
    measured = measured_text(found.metrics)
    lines = [
        f"run        {found.run}  ({found.run_dir}){'  ' + found.part if found.part else ''}",
        f"state      {found.stage.lower()}{activity}, up {duration(found.uptime_s)}",
        f"progress   {steps_done(found.steps, found.total_steps, found.unit)}{share}{speed}{left}",
        f"           update {found.update:,}, {found.episodes:,} episodes, version {found.version}",
    ]
    lines += [f"measured   {measured}"] if measured else []
    return lines + ([f"error      {found.error}"] if found.error else [])


def _status(run: Path) -> Status:
    """From the process of a run; from its files where there is none."""
    from ludus.daemon.asking import NotRunning, ask_run
    from ludus.daemon.messages import AskStatus, Status
    from ludus.daemon.run_watch import RunWatch

    try:
        result = ask_run(_home(run), AskStatus(), timeout_s=ANSWER_S)
    except NotRunning:
        need_run(run)
        result = None
    if result is not None:
        return Status.model_validate_json(json.dumps(result))
    return RunWatch(run).status()


def _home(run: Path) -> Path:
    """Where a run's socket is: that of a stage is its whole run's."""
    from ludus.storage.run_directory import StagedDirectory

    return run.parent if StagedDirectory(run.parent).is_staged() else run


def _ask(run: Path, command: Payload, timeout_s: float | None = ANSWER_S) -> dict[str, Any] | None:
    from ludus.daemon.asking import NotRunning, ask_run

    try:
        return ask_run(_home(run), command, timeout_s=timeout_s)
    except NotRunning as error:
        need_run(run)
        again = (
            f"; it goes on with: ludus run {run / 'config.yaml'} --run-dir {run}" if command.type == "resume" else ""
        )
        raise NotRunning(f"{error}{again}") from None


def _wait_for(run: Path, is_it: Any) -> Status:
    """The first status that is it, or with which the run is over."""
    while True:
        found = _status(run)
        if is_it(found) or found.stage in ("DONE", "STOPPED", "ERROR"):
            return found
        time.sleep(POLL_S)


def _report(found: Status) -> None:
    typer.echo("\n".join(status_lines(found)))
