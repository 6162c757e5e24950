"""What `ludus run` says at the end: how it went, and what to do next."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from ludus.cli.inspect import find_episode
from ludus.errors import ConfigError
from ludus.plugins import plugin_files
from ludus.reports.ladder import Standing, standing_of_run
from ludus.reports.tables import ladder_table
from ludus.runs.staged import StagedRun
from ludus.storage.catalog import Catalog
from ludus.storage.jsonl import read_jsonl
from ludus.telemetry.sinks import read_sink_troubles, trouble_in_words

if TYPE_CHECKING:
    from ludus.config import RunConfig
    from ludus.runs.driver import Status
    from ludus.runs.staged import AnyRun

LAST_WORDS = 6
"""Replies of the last game that are shown at the end."""
_PARTS = ("games", "wins", "draws", "losses", "return_", "score_", "by_return")
EXPLOITABILITY = (("psro/nash_conv", "exact"), ("psro/nash_conv_bound", "lower bound"))
"""Metrics of it, and what each is worth; the first that there is counts."""


def print_summary(console: Console, loop: AnyRun, status: Status) -> None:
    """Say how it ended, show what was measured, and what to do next."""
    if status.stage == "stopped":
        stage = f" of the stage {status.stage_name}" if status.stage_name else ""
        where = f"{status.steps:,} {unit_of(loop.config)}{stage}"
        say(console, f"stopped at {where}; the same command resumes there ({status.run_dir})")
    print_sinks(console, loop)
    if status.stage != "done":
        return
    print_stages(console, loop)
    if loop.config.mode == "evaluate":
        console.print(measured_table(loop.run.events))
        say(console, f"run: {status.run_dir}    metrics: {loop.run.metrics}")
        return
    if loop.config.population is not None:
        print_population(console, loop, status)
        return
    print_measured(console, loop, status)
    if loop.config.policy.model is not None:
        print_last_words(console, loop.run.path)
    print_refused(console, loop, status)
    run, ludus = status.run_dir, command_name()
    if not loop.config.games:
        say(console, f"run: {run}    look into it: {ludus} inspect {run}    draw it: {ludus} plot {run}")
    else:
        play = f"{ludus} play {run}{plugin_options()}"
        ladder = f"    ladder: {ludus} league {run}" if find_standing(loop) is not None else ""
        say(console, f"run: {run}    play against it: {play}{ladder}")


def plugin_options() -> str:
    """What a command about this run needs besides: the files that its parts come from."""
    return "".join(f" --plugin {path}" for path in plugin_files())


def print_refused(console: Console, loop: AnyRun, status: Status) -> None:
    """Say that experience was refused: what is left may be a biased sample."""
    with Catalog.open_readonly(loop.run.catalog) as catalog:
        refused, examples = catalog.refused(), catalog.refused_examples()
    if refused:
        reasons = ", ".join(f"{reason}: {count:,}" for reason, count in refused.items())
        say(console, f"refused sequences: {reasons}    look into it: {command_name()} inspect {status.run_dir}")
        for reason, example in examples.items():
            say(console, f"  {reason}: {example}")


def print_sinks(console: Console, loop: AnyRun) -> None:
    """Places for metrics that lost some of them; nothing when all is well."""
    for trouble in read_sink_troubles(loop.run.events):
        say(console, f"{trouble.name}: {trouble_in_words(trouble)}; everything is in {loop.run.metrics}")


def print_population(console: Console, loop: AnyRun, status: Status) -> None:
    """How far the population is from an equilibrium, and where it is."""
    for line in final_lines(status, loop.run.events):
        say(console, line)
    run, ludus = status.run_dir, command_name()
    is_computed = loop.config.population is not None and loop.config.population.oracle == "exact"
    play = f"    play against it: {ludus} play {run}" if is_computed else ""
    say(console, f"run: {run}    population: {ludus} league {run}{play}")


def final_lines(status: Status, events: Path) -> list[str]:
    """How it ended: the last NashConv, what it cost, and why there was no further generation."""
    metrics, found = status.metrics, exploitability(status.metrics)
    nash_conv = "NashConv not known" if found is None else f"NashConv {found[0]:.6g} ({found[1]})"
    ended = [event["reason"] for event in read_jsonl(events) if event.get("event") == "population_done"]
    return [
        f"{nash_conv} after {status.steps:,} generations, {_policies(metrics)} policies; "
        + "; ".join([*_costs(metrics), f"{metrics.get('psro/cpu_s', 0.0):.2f} CPU-seconds of PSRO"]),
        *([f"no further generation: {ended[-1]}"] if ended else []),
    ]


def _policies(metrics: Mapping[str, float]) -> str:
    seats = [f"psro/seat_{seat}/policies" for seat in (0, 1)]
    return " + ".join(f"{metrics[name]:.0f}" for name in (*seats, "psro/policies") if name in metrics)


def _costs(metrics: Mapping[str, float]) -> list[str]:
    words = (
        ("psro/value", "value of seat 0: {:.6g}"),
        ("psro/steps", "{:,.0f} steps of learners"),
        ("psro/matches", "{:,.0f} matches"),
    )
    return [text.format(metrics[name]) for name, text in words if name in metrics]


def print_measured(console: Console, loop: AnyRun, status: Status) -> None:
    """The ladder, where members have met in games, and the newest scores."""
    if (standing := find_standing(loop)) is not None:
        console.print(ladder_table(standing))
    for each in headlines(status.metrics):
        if not each.name.endswith("/sampled"):
            say(console, f"final {each.what} {each.name}: {each.text}{each.details(status.metrics)}")
    for line in absolute_lines(status.metrics):
        say(console, line)
    if "evaluate/return" in status.metrics:
        value, half = status.metrics["evaluate/return"], status.metrics.get("evaluate/return_ci95", 0.0)
        say(console, f"final mean return: {value:g} ± {half:.2g}")


def find_standing(loop: AnyRun) -> Standing | None:
    """The ladder; None where nobody is rated, as after a run whose games are all held out."""
    if not loop.config.games:
        return None
    with Catalog.open_readonly(loop.run.catalog) as catalog:
        standing = standing_of_run(catalog)
    return standing if any(row.rank is not None for row in standing.rows) else None


def absolute_lines(metrics: Mapping[str, float]) -> list[str]:
    """What was measured without an opponent: exploitability, and moves judged by a solver."""
    lines = [
        f"final exploitability{_of(name)}: {value:.4g} (exact; NashConv over seats)"
        for name, value in _measured(metrics, "exploitability").items()
    ]
    judged = _measured(metrics, "optimal_moves")
    for name, share in judged.items():
        path = f"evaluate/{name}"
        margin, count = metrics[f"{path}optimal_moves_ci95"], metrics[f"{path}judged_positions"]
        who = name.removesuffix("/").rpartition("/")[2] or "the final policy"
        lines.append(
            f"outcome-preserving moves of {who}: {share:.1%} ± {margin:.1%} of {count:,.0f} positions where it matters"
        )
    return lines


def _of(name: str) -> str:
    return f" at {name.removesuffix('/')}" if name else ""


def print_stages(console: Console, loop: AnyRun) -> None:
    """A line for each stage with what was measured in it last; nothing where there are none."""
    for run in loop.runs if isinstance(loop, StagedRun) else ():
        newest: dict[str, str] = {}
        for line in read_jsonl(run.metrics):
            newest |= {each.name: each.text for each in headlines(line)}
        say(console, f"{run.path.name:<16} " + "  ".join(f"{name} {text}" for name, text in newest.items()))


def measured_table(events: Path) -> Table:
    """From the events of a run, oldest version first; one that was measured again counts once."""
    found = {event["policy"]: event for event in read_jsonl(events) if event.get("event") == "measured"}
    rows = sorted(found.values(), key=lambda event: int(event["policy"].rpartition("@")[2]))
    names = list(dict.fromkeys(name for event in rows for name in event["scores"] if _is_main(name, event["scores"])))
    table = Table(title="Measured", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in ("version", "step", *(name.removeprefix("evaluate/").replace("/", "\n") for name in names)):
        table.add_column(name, justify="left" if name == "version" else "right")
    for event in rows:
        scores = (f"{event['scores'][name]:.3f}" if name in event["scores"] else "" for name in names)
        table.add_row(event["policy"], f"{event['step']:,}", *scores)
    return table


def _is_main(name: str, scores: Mapping[str, float]) -> bool:
    """Whether a figure has a column: not the parts of a score, nor a return that says the same as the score."""
    path, _, figure = name.rpartition("/")
    if figure == "return" and f"{path}/score" in scores:
        return f"{path}/by_return" in scores
    return not figure.startswith(_PARTS)


def unit_of(config: RunConfig) -> str:
    """What a run counts."""
    return "steps" if config.population is None else "generations"


def exploitability(metrics: Mapping[str, float]) -> tuple[float, str] | None:
    """How far a population is from an equilibrium, and whether that is exact; None where it is not known."""
    return next(((metrics[name], worth) for name, worth in EXPLOITABILITY if name in metrics), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The figure that says most of how a policy did against an opponent, or on a held-out taskset."""

    what: str
    name: str
    value: float
    is_share: bool
    margin: float = 0.0

    @property
    def text(self) -> str:
        """`93.5%`, or a return with half of its 95 % interval: `+0.52 ± 0.11`."""
        return f"{self.value:.1%}" if self.is_share else f"{self.value:+.2f} ± {self.margin:.2f}"

    def details(self, metrics: Mapping[str, float]) -> str:
        """Wins, draws and losses; or how sampled attempts did where greedy ones did otherwise."""
        path = f"evaluate/{self.name}"
        sampled = metrics.get(f"{path}/sampled/success")
        if sampled is not None:
            return " greedily" + (f", {sampled:.1%} sampled as in training" if sampled != self.value else "")
        if f"{path}/wins" not in metrics:
            return ""
        counts = ", ".join(f"{metrics[f'{path}/{name}']:.1%} {name}" for name in ("wins", "draws", "losses"))
        return f" ({counts})"


def headlines(metrics: Mapping[str, float]) -> list[Headline]:
    """What was measured last. Where a game pays more than win or lose, that is the mean return and not the score."""
    found: list[Headline] = []
    for name, score in _measured(metrics, "/score").items():
        path = f"evaluate/{name}"
        if f"{path}/by_return" in metrics:
            margin = metrics[f"{path}/return_ci95"]
            value = metrics[f"{path}/return"]
            found.append(Headline(what="return against", name=name, value=value, is_share=False, margin=margin))
        else:
            found.append(Headline(what="score against", name=name, value=score, is_share=True))
    for name, value in _measured(metrics, "/success").items():
        if not name.endswith("/sampled") or value != metrics.get(f"evaluate/{name.removesuffix('/sampled')}/success"):
            found.append(Headline(what="success on", name=name, value=value, is_share=True))
    return found


def _measured(metrics: Mapping[str, float], suffix: str) -> dict[str, float]:
    return {
        name.removeprefix("evaluate/").removesuffix(suffix): value
        for name, value in metrics.items()
        if name.startswith("evaluate/") and name.endswith(suffix)
    }


def print_last_words(console: Console, run: Path) -> None:
    """What was said in the last game that was recorded, and what it came to."""
    try:
        game = find_episode(run, "last")
    except ConfigError:
        return
    seats = game.task.seats
    said = [
        f"{seats[seat].policy.name}: {shorten(' '.join(reply.split()), 60, placeholder=' ...')!r}"
        for seat, reply in zip(game.move_seats.tolist(), game.replies, strict=True)
    ]
    shown = [*said[:LAST_WORDS], *([f"{len(said) - LAST_WORDS} more"] if len(said) > LAST_WORDS else [])]
    came_to = ", ".join(f"{who.policy.name} {value:g}" for who, value in zip(seats, game.returns, strict=True))
    asked = game.task.inputs.get("prompt")
    what = "last game" if asked is None else f"last attempt, at {shorten(' '.join(str(asked).split()), 60)!r}"
    say(console, f"{what}: {'; '.join(shown)}; came to: {came_to}")


def say(console: Console, text: str) -> None:
    """One line, as it is, however long."""
    console.print(text, highlight=False, soft_wrap=True, markup=False)


def command_name() -> str:
    """How to type this command here: by its name when it is found, else by the path it was started with."""
    return "ludus" if shutil.which("ludus") else os.path.relpath(sys.argv[0])
