"""What `ludus run` shows: a live panel in a terminal, plain lines in a pipe, JSON lines on request, or nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Self

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ludus.cli.summary import exploitability, headlines, print_summary, unit_of
from ludus.daemon.reports import Rate, Reporter
from ludus.reports.number_text import decades, sparkline

if TYPE_CHECKING:
    from types import TracebackType

    from ludus.config import RunConfig
    from ludus.runs.driver import Status
    from ludus.runs.staged import AnyRun

PLAIN_EVERY_S = 5.0
MEASURING = "measuring"
"""What a status names while nobody learns."""
SETTING_UP = ("starting", "warming up")
_WHOLE_RUNS = ("psro", "self_play", "fixed", "sequential_league")
"""Schedulers whose learners all learn for `train.steps`."""


class Display:
    """Shows statuses as they come: this one nothing, others a line, an object or a panel."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore what was changed to show something."""

    def show(self, status: Status) -> None:
        """Take a new status; called a few times a second."""

    def summarise(self, status: Status) -> None:
        """Say how it ended and what to do next."""


def make_display(loop: AnyRun, *, quiet: bool, json_lines: bool) -> Display:
    """The display that fits where the output goes."""
    if quiet:
        return Display()
    if json_lines:
        return JsonLines()
    console = Console()
    return LivePanel(console, loop) if console.is_terminal else PlainLines(console, loop)


class JsonLines(Display):
    """One JSON object a second, and one at the end."""

    def __init__(self) -> None:
        self._last = 0.0

    def show(self, status: Status) -> None:
        """Print at most once a second."""
        if status.is_over or time.monotonic() - self._last >= 1.0:
            self._last = time.monotonic()
            # What is not finite is null, as in metrics.jsonl: NaN is no JSON.
            print(msgspec.json.encode(asdict(status)).decode(), flush=True)


class TextDisplay(Display):
    """What people read: progress in its own form, and a summary at the end."""

    def __init__(self, console: Console, loop: AnyRun) -> None:
        self._console = console
        self._loop = loop
        self._rate = Rate()
        self._set_up = SetUp(loop.config)

    def summarise(self, status: Status) -> None:
        """The ladder and where things are."""
        print_summary(self._console, self._loop, status)


class PlainLines(TextDisplay):
    """A line every few seconds: for logs and pipes."""

    def __init__(self, console: Console, loop: AnyRun) -> None:
        super().__init__(console, loop)
        self._last = -PLAIN_EVERY_S
        self._stage = ("", 0)

    def show(self, status: Status) -> None:
        """Print when it is time, or when the stage has changed."""
        rate = self._rate.update(status.steps)
        if took := self._set_up.took(status):
            print(took, file=self._console.file, flush=True)
        now = time.monotonic()
        stage = (status.stage, status.stage_number)
        if stage == self._stage and now - self._last < PLAIN_EVERY_S:
            return
        self._last, self._stage = now, stage
        scores = "  ".join(f"{each.name} {each.text}" for each in headlines(status.metrics))
        scores = scores or population_progress(self._loop.config, status) or self._set_up.words(status)
        steps = f"{status.steps:>11,}{_of(status, '/')} {unit_of(self._loop.config)}{_length(status)}"
        speed = "" if is_slow(status) else f"  {rate:>8,.0f}/s"
        evaluating = f"  evaluating {status.evaluating}" if status.evaluating else ""
        line = f"{which_stage(status)}{status.stage:<10} {steps}{speed}{evaluating}  {scores}  {silence(status)}"
        print(line.rstrip(), file=self._console.file, flush=True)


class LivePanel(TextDisplay):
    """A panel that is redrawn in place."""

    def __init__(self, console: Console, loop: AnyRun) -> None:
        super().__init__(console, loop)
        self._live = Live(console=console, refresh_per_second=4, transient=False)
        self._reporter = Reporter(loop)
        self._share_rate = Rate()
        self._curves: dict[str, list[float]] = {}
        self._generation = -1

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def show(self, status: Status) -> None:
        """Redraw."""
        if took := self._set_up.took(status):
            self._live.console.print(took, style="dim", highlight=False)
        rate = self._rate.update(status.steps)
        self._live.update(
            Group(self._headline(status, rate), self._bar(status), self._rooms(status), self._facts(status))
        )

    def _headline(self, status: Status, rate: float) -> Text:
        speed = self._share_rate.update(status.share_done)
        left = (1.0 - status.share_done) / speed if speed > 0 else 0.0
        text = Text.assemble(
            (f"{status.run} {which_stage(status)}", "bold"),
            (f"{status.stage}", "green" if status.stage in ("training", "done") else "yellow"),
            f"  {status.steps:,}{_of(status, ' of ')} {unit_of(self._loop.config)}{_length(status)}",
            "" if is_slow(status) else f"  {rate:,.0f}/s",
        )
        if status.evaluating:
            text.append(f"  evaluating {status.evaluating}", "yellow")
        if self._loop.config.population is None and (words := self._set_up.words(status)):
            text.append(f"  {words}", "dim")
        text.append(f"  {learning_progress(self._loop.config, status)}".rstrip(), "dim")
        if status.stage == "training" and speed > 0 and self._loop.config.population is None:
            text.append(f"  {_duration(left)} left", "dim")
        text.append(f"  {silence(status)}".rstrip(), "yellow")
        return text

    def _bar(self, status: Status) -> Table:
        bar = Table.grid()
        share = status.share_done or status.steps / max(status.total_steps, 1)  # populations count generations
        bar.add_row(ProgressBar(total=1.0, completed=min(share, 1.0), width=60))
        return bar

    def _rooms(self, status: Status) -> Text:
        """What each room does now, in the order in which data flows through them."""
        rooms = [room for room in self._reporter.rooms(status) if room.total]
        return Text("  ".join(f"{room.name} {room.rate:,.0f}/s" for room in rooms), "dim", no_wrap=True)

    def _facts(self, status: Status) -> Table:
        table = Table.grid(padding=(0, 2))
        for each in headlines(status.metrics):
            label = f"{each.what} {each.name}"
            curve = self._curves.setdefault(label, [])
            if not curve or curve[-1] != each.value:
                curve.append(each.value)
            low, high = (0.0, 1.0) if each.is_share else (min(curve), max(curve))
            table.add_row(label, f"{each.text:>6}", Text(sparkline(curve[-40:], low, high), "cyan"))
        self._add_exploitability(table, status)
        for label, key, form in FACTS:
            if key in status.metrics:
                table.add_row(label, format(status.metrics[key], form), "")
        return table

    def _add_exploitability(self, table: Table, status: Status) -> None:
        found = exploitability(status.metrics)
        if found is None:
            return
        value, worth = found
        curve = self._curves.setdefault("psro/nash_conv", [])
        if status.steps != self._generation:
            self._generation = status.steps
            curve.append(value)
        shown = sparkline(decades(curve)[-40:], 0.0, 1.0)
        table.add_row(f"NashConv ({worth})", f"{value:.4g}", Text(shown, "cyan"))


FACTS = (
    ("Elo of the newest version", "league/elo", "6.0f"),
    ("entropy", "train/entropy", "6.3f"),
    ("KL to the behaviour policy", "train/approx_kl", "6.4f"),
    ("mean return", "evaluate/return", "6.2f"),
    ("plies per game", "explore/length", "6.1f"),
    ("invalid moves", "explore/invalid_moves", "6.1%"),
    ("versions behind", "train/staleness", "6.2f"),
    ("histories of the game", "psro/histories", "6,.0f"),
    ("value of seat 0", "psro/value", "6.4f"),
    ("policies of seat 0", "psro/seat_0/policies", "6.0f"),
    ("policies of seat 1", "psro/seat_1/policies", "6.0f"),
    ("policies", "psro/policies", "6.0f"),
    ("matches played", "psro/matches", "6,.0f"),
    ("steps of all learners", "psro/steps", "6,.0f"),
)


def _of(status: Status, between: str) -> str:
    return f"{between}{status.total_steps:,}" if status.total_steps else ""


def _length(status: Status) -> str:
    return f"  {status.length}" if status.length else ""


def which_stage(status: Status) -> str:
    """`2/3 mix `; empty where there are no stages."""
    return f"{status.stage_number}/{status.stage_count} {status.stage_name} " if status.stage_count else ""


def silence(status: Status) -> str:
    """Which workers give no sign of life; empty while all do."""
    return f"no sign of life: {', '.join(status.silent_workers)}" if status.silent_workers else ""


def is_slow(status: Status) -> bool:
    """Whether what is counted takes minutes, so that its rate says nothing: generations of learners."""
    return "psro/learner_steps" in status.metrics


class SetUp:
    """What a run does before it trains, and how long that takes."""

    def __init__(self, config: RunConfig, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._began = clock()
        self._stage = "starting"
        self._learning: tuple[float, float] | None = None
        """When the first progress of a warm start came, and which."""

    def words(self, status: Status) -> str:
        """What is being set up now, for how long and for how long still; empty when nothing is."""
        if status.stage not in SETTING_UP:
            return ""
        gone = f"{_duration(self._clock() - self._began)} so far"
        if status.stage == "starting":
            return f"opening workers and weights, {gone}"
        done, played = status.metrics.get("warm_start/progress"), status.metrics.get("warm_start/games")
        warm = self._config.warm_start
        if done is None:
            count = f"{played or 0:,.0f} of {warm.games:,} games" if warm is not None else "games"
            return f"warm start: {count} played to learn from, {gone}"
        loss = status.metrics.get("warm_start/loss", float("nan"))
        return f"warm start: {done:.0%} of the games learnt from, loss {loss:.3f}, {gone}{self._left(done)}"

    def took(self, status: Status) -> str:
        """How long the last part took, once it is over; called with every status."""
        before, now = self._stage, status.stage
        if now == before:
            return ""
        seconds, self._stage, self._began = self._clock() - self._began, now, self._clock()
        is_worth_it = before in SETTING_UP and not status.is_over and seconds >= 1.0
        return f"{before} took {_duration(seconds)}" if is_worth_it else ""

    def _left(self, done: float) -> str:
        now = self._clock()
        since, first = self._learning = self._learning or (now, done)
        return f", about {_duration((now - since) * (1 - done) / (done - first))} left" if done > first else ""


def population_progress(config: RunConfig, status: Status) -> str:
    """Who is learning, and how far the population is from an equilibrium; or how far its game's tree is walked."""
    if config.population is None:
        return ""
    found = exploitability(status.metrics)
    parts = [learning_progress(config, status)]
    if found is not None:
        parts.append(f"NashConv {found[0]:.4g} ({found[1]})")
    elif "psro/histories" in status.metrics:
        parts.append(f"{status.metrics['psro/histories']:,.0f} histories found")
    return "  ".join(part for part in parts if part)


def learning_progress(config: RunConfig, status: Status) -> str:
    """`main learns: 1,200 of 5,000 steps`; empty where nothing is learnt."""
    steps = status.metrics.get("psro/learner_steps")
    if steps is None or not status.stage_name or config.population is None or status.stage == "starting":
        return ""
    if status.stage != "training" or status.stage_name == MEASURING:
        return status.stage_name
    learners = status.stage_name.split(", ")
    whole = (config.train.steps or 0) * len(learners) if config.population.scheduler in _WHOLE_RUNS else 0
    return f"{status.stage_name}: {steps:,.0f}{f' of {whole:,}' if whole else ''} steps"


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"
