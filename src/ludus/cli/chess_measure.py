"""`ludus chess eval`, `overfit` and `tune-lr`: how good a network is, whether it can learn, and how fast."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ludus.cli.arguments import AsJson, Overrides
from ludus.cli.chess_networks import Network
from ludus.cli.chess_training import Chunks
from ludus.errors import ConfigError
from ludus.extras import NETWORKS, need_packages

if TYPE_CHECKING:
    from ludus.chess.network_source import NetworkSource
    from ludus.chess.training.evaluation import Report

PROGRESS_S = 2.0
EXIT_NOT_LEARNT = 1
Part = Literal["all", "train", "validation"]
Seed = Annotated[int, typer.Option(help="Of initial weights and of what is drawn.")]
Subject = Annotated[str, typer.Argument(metavar="CONFIG|NETWORK", help="YAML file, .pb.gz, run or RUN@VERSION.")]


def evaluate(
    network: Network,
    chunks: Annotated[
        Path | None, typer.Argument(help="Chunks, or a directory of them. Default: the run's own.")
    ] = None,
    part: Annotated[
        Part | None, typer.Option(help="Which games. Default: validation of a run's own chunks, all of others.")
    ] = None,
    validation: Annotated[
        float | None, typer.Option(min=0, max=1, help="Share that is held out. Default: the run's, or 0.05.")
    ] = None,
    games: Annotated[int | None, typer.Option(min=1, help="End after so many games. Default: all.")] = None,
    per_game: Annotated[int, typer.Option(min=0, help="Positions of each game, drawn; 0: all of them.")] = 0,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Measure a network on chunks: its losses, top-1 agreement, value accuracy, error in plies, with 95 % intervals.

    Of a run, by default on the games that it holds out: the same split as in training. Intervals count games, not
    positions, since positions of one game resemble each other.

    \b
    Examples:
      ludus chess eval runs/chess
      ludus chess eval maia-1100.pb.gz chunks --games 500 --per-game 20
      ludus chess eval runs/chess@12 other_chunks --part all --json
    """
    need_packages("ludus chess eval", "ludus_chess", *NETWORKS)
    from ludus.chess.compile_cache import use_compile_cache
    from ludus.chess.network_source import open_network
    from ludus.chess.training.config_text import objective_of
    from ludus.chess.training.evaluation import evaluate as measure
    from ludus.chess.training.record_tensors import read_games

    source = open_network(network)
    place, part, share = _which(source, chunks, part, validation)
    use_compile_cache()
    config = source.config
    objective = (config.train.algorithm.objective if config is not None else None) or objective_of(
        source.chess_network()
    )
    split = {"train": 1 - share, "validation": share} if part != "all" else None
    found = read_games(place, input_format=source.input_format, split=split, part=part)
    clock = _Clock()
    report = measure(
        source,
        found,
        objective,
        per_game=per_game or None,
        most_games=games,
        seed=seed,
        progress=lambda report: clock.say(f"{report.games:,} games, {report.positions:,} positions"),
    )
    _show_report(source, place, part, report, as_json)


def _which(
    source: NetworkSource, chunks: Path | None, part: Part | None, validation: float | None
) -> tuple[Path, Part, float]:
    """The chunks, the part of them, and the share that is held out."""
    loader = None if source.config is None else source.config.buffer.loader
    options = loader.options if loader is not None and loader.kind == "chess_chunks" else {}
    own = Path(str(options["directory"])) if options.get("directory") else None
    place = chunks or own
    if place is None or not place.exists():
        raise ConfigError(f"{place or source.name}: no chunks; write a directory of them behind the network")
    share = validation if validation is not None else float(options.get("validation", 0.05))
    is_own = own is not None and place.absolute() == own.absolute()
    chosen: Part = part or ("validation" if is_own and share else "all")
    if chosen != "all" and not 0 < share < 1:
        raise ConfigError(f"--part {chosen}: nothing is held out; write --validation between 0 and 1, or --part all")
    return place, chosen, share


def _show_report(source: NetworkSource, place: Path, part: str, report: Report, as_json: bool) -> None:
    measured = report.measured()
    for problem in report.refused[:3]:
        typer.echo(f"refused: {problem}", err=True)
    if as_json:
        metrics = {
            name: {"mean": each.mean, "low": _finite(each.low), "high": _finite(each.high), "positions": each.positions}
            for name, each in measured.items()
        }
        counts = {"games": report.games, "positions": report.positions, "refused": len(report.refused)}
        facts = {"network": source.name, "chunks": str(place), "part": part, **counts, "metrics": metrics}
        typer.echo(json.dumps(facts, indent=1))
        return
    typer.echo(
        f"{source.name} on {place} ({'all games' if part == 'all' else f'the {part} part'}): {report.games:,} games, "
        f"{report.positions:,} positions" + (f", {len(report.refused):,} refused" if report.refused else "")
    )
    for name, each in measured.items():
        within = f"95 %: {each.low:.4f} to {each.high:.4f}" if each.low == each.low else "one game: no interval"
        typer.echo(f"  {name:<24}{each.mean:>9.4f}   {within}")


def _finite(number: float) -> float | None:
    return number if number == number else None


def overfit(
    source: Subject,
    overrides: Overrides = None,
    chunks: Chunks = None,
    positions: Annotated[int, typer.Option(min=1, max=65536, help="Of the one batch.")] = 64,
    steps: Annotated[int, typer.Option(min=1, help="Most optimizer steps.")] = 500,
    learning_rate: Annotated[float | None, typer.Option(help="Constant. Default: the config's.")] = None,
    within: Annotated[
        float, typer.Option(min=0, help="Learnt when every loss is this near to its lower bound.")
    ] = 0.05,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Train on one batch until it is learnt, to see that network, losses and optimizer work. If not, exit code 1.

    The lower bound of a cross-entropy is the entropy of its targets; that of other losses is 0.

    \b
    Examples:
      ludus chess overfit chess.yaml
      ludus chess overfit chess.yaml policy.network.blocks=2 --positions 32 --learning-rate 0.003
      ludus chess overfit maia-1100.pb.gz --chunks chunks
    """
    need_packages("ludus chess overfit", "ludus_chess", *NETWORKS)
    from ludus.chess.compile_cache import use_compile_cache
    from ludus.chess.training.overfit import overfit as learn
    from ludus.chess.training.subject import open_subject

    subject = open_subject(source, overrides or (), chunks)
    use_compile_cache()
    clock, rows, step, bounds = _Clock(), [], None, dict[str, float]()
    for bounds, step in learn(subject, positions=positions, steps=steps, learning_rate=learning_rate, seed=seed):
        if step.step == 0 and not as_json:
            typer.echo(f"{subject.name}, {positions} positions; losses, and how far above their lower bounds they are")
            typer.echo("lower bounds: " + ", ".join(f"{name} {bound:.4f}" for name, bound in bounds.items()))
        worst = max(step.above.values())
        is_learnt = worst <= within and not step.skipped
        if is_learnt or step.step in (0, steps) or (step.step & (step.step - 1)) == 0 or clock.is_due():
            rows.append({"step": step.step, **{name: round(loss, 6) for name, loss in step.losses.items()}})
            if not as_json:
                shown = "  ".join(f"{name} {loss:.4f} (+{step.above[name]:.4f})" for name, loss in step.losses.items())
                typer.echo(f"step {step.step:>5}  {shown}{'  not finite: skipped' if step.skipped else ''}")
        if is_learnt:
            break
    learnt = step is not None and max(step.above.values()) <= within and not step.skipped
    if as_json:
        typer.echo(json.dumps({"learnt": learnt, "bounds": bounds, "within": within, "steps": rows}, indent=1))
    elif learnt and step is not None:
        typer.echo(f"learnt in {step.step:,} steps")
    elif step is not None:
        late = ", ".join(name for name, above in step.above.items() if not above <= within)
        hint = "try more --steps or another --learning-rate"
        typer.echo(f"not learnt in {step.step:,} steps: {late} more than {within:g} above the lower bound; {hint}")
    if not learnt:
        raise typer.Exit(EXIT_NOT_LEARNT)


def tune_lr(
    source: Subject,
    overrides: Overrides = None,
    chunks: Chunks = None,
    low: Annotated[float, typer.Option(min=1e-12, help="First rate.")] = 1e-6,
    high: Annotated[float, typer.Option(min=1e-11, help="Last rate.")] = 1.0,
    steps: Annotated[int, typer.Option(min=10, help="Optimizer steps; each has another rate.")] = 150,
    minibatch: Annotated[int | None, typer.Option(min=1, help="Positions of a step. Default: the config's.")] = None,
    out: Annotated[Path | None, typer.Option(help="Picture to write, .png or .svg. Default: none.")] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Find a learning rate: train while the rate grows exponentially, and see where the loss falls and diverges.

    The suggestion is a tenth of the rate with the lowest loss, for the config's optimizer and minibatch.

    \b
    Examples:
      ludus chess tune-lr chess.yaml --out rates.png
      ludus chess tune-lr chess.yaml train.optimizer.kind=sgd --high 10
    """
    need_packages("ludus chess tune-lr", "ludus_chess", *NETWORKS)
    from ludus.chess.compile_cache import use_compile_cache
    from ludus.chess.training.rate_sweep import suggest, sweep
    from ludus.chess.training.subject import open_subject
    from ludus.storage.atomic import write_bytes

    if not low < high:
        raise ConfigError(f"--low {low:g} must be below --high {high:g}")
    if out is not None and out.suffix not in (".png", ".svg"):
        raise ConfigError(f"--out {out}: expected a file that ends in .png or .svg")
    subject = open_subject(source, overrides or (), chunks)
    use_compile_cache()
    clock, points = _Clock(), []
    size = minibatch or subject.config.train.minibatch
    for point in sweep(subject, low=low, high=high, steps=steps, minibatch=size, seed=seed):
        points.append(point)
        clock.say(f"step {len(points):,} of {steps:,}: rate {point.rate:.2g}, loss {point.loss:.4f}")
    found = suggest(points, high=high)
    if as_json:
        rows = [{**point._asdict(), "smooth": mean} for point, mean in zip(points, found.smooth, strict=True)]
        facts: dict[str, Any] = {"suggested": found.rate, "lowest": found.lowest, "diverged": found.diverged}
        typer.echo(json.dumps({**facts, "points": rows}, indent=1))
    else:
        typer.echo(f"{'rate':>10}  {'loss':>9}  {'smoothed':>9}")
        for point, mean in list(zip(points, found.smooth, strict=True))[:: max(1, len(points) // 15)]:
            typer.echo(f"{point.rate:>10.2e}  {point.loss:>9.4f}  {mean:>9.4f}")
        ends = "it did not diverge" if found.diverged is None else f"it diverged at {found.diverged:.2g}"
        typer.echo(f"the loss was lowest at {found.lowest:.2g}; {ends}")
        typer.echo(f"suggested: train.optimizer.learning_rate={found.rate:g}")
    if out is not None:
        from ludus.reports.charts.rate_sweep import draw_sweep

        rates, losses = (list(column) for column in zip(*points, strict=True))
        picture = draw_sweep(rates, losses, found.smooth, found.rate, form="svg" if out.suffix == ".svg" else "png")
        write_bytes(out, picture)
        typer.echo(f"picture: {out}", err=as_json)


class _Clock:
    """Says on stderr how far something is, every few seconds."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def is_due(self) -> bool:
        """Whether the last time was long ago; counts from now on if it was."""
        if time.monotonic() - self._last < PROGRESS_S:
            return False
        self._last = time.monotonic()
        return True

    def say(self, line: str) -> None:
        """Print a line if one is due."""
        if self.is_due():
            typer.echo(line, err=True)
