"""`ludus plot`: how runs have gone so far, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ludus.cli.arguments import open_run
from ludus.errors import ConfigError


def plot(
    runs: Annotated[
        list[str], typer.Argument(help="Directories of runs, live or finished; or LABEL=PATTERN for a line of several.")
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(help="Metric or pattern, such as 'train/*', or LABEL=METRIC. Default: what evaluations measure."),
    ] = None,
    panels: Annotated[bool, typer.Option("--panels", help="One run: a panel and a scale for each metric.")] = False,
    out: Annotated[Path | None, typer.Option(help="File to write, .png or .svg. Default: RUN/curves.png.")] = None,
    title: Annotated[str | None, typer.Option(help="Headline. Default: the name of the run.")] = None,
) -> None:
    """Draw metrics over the steps of one run, or of several side by side.

    Scores, successes and returns of one run have their 95 % intervals, where it is recorded how many games or tasks
    they are of. Runs with the same label are one line, their mean, in a band from the least to the most of them.

    \b
    Examples:
      ludus plot runs/connect_four
      ludus plot runs/connect_four --metric train/entropy --metric 'train/*_kl' --out /tmp/training.svg
      ludus plot runs/chess --metric 'top-1=train/validation/policy_top1' --metric 'evaluate/*/score' --panels
      ludus plot 'mix=runs/study/mix-*' 'grpo=runs/study/grpo-*' --metric 'evaluate/*/success' --out study.png
    """
    from ludus.reports.curves import draw_curves, draw_labelled, read_bands
    from ludus.storage.atomic import write_bytes

    labels = _labels(metric or ())
    metric = list(labels) or None
    labelled = _find_runs(runs)
    single = labelled[0][1][0] if len(labelled) == 1 and len(labelled[0][1]) == 1 else None
    if out is None and single is None:
        raise ConfigError("--out: write the name of the picture, such as --out study.png, when there are several runs")
    target = out or Path(runs[0]) / "curves.png"
    if target.suffix not in (".png", ".svg"):
        raise ConfigError(f"--out {target}: expected a file that ends in .png or .svg")
    form = target.suffix[1:]
    if single is not None:
        curves = _read(single, metric)
        bands = read_bands(single / "metrics.jsonl", curves)
        write_bytes(
            target, draw_curves(curves, title or labelled[0][0], bands=bands, labels=labels, apart=panels, form=form)
        )
        for name, points in curves.items():
            within = f" (95 %: {bands[name][-1][1]:.4g} to {bands[name][-1][2]:.4g})" if name in bands else ""
            typer.echo(f"{name}: {_ends(points)}{within}")
    else:
        found = {label: [_read(path, metric) for path in paths] for label, paths in labelled}
        write_bytes(target, draw_labelled(found, title or "", form=form))
        for label, several in found.items():
            for path, curves in zip(dict(labelled)[label], several, strict=True):
                for name, points in curves.items():
                    typer.echo(f"{label}: {path.name}: {name}: {_ends(points)}")
    typer.echo(f"picture: {target}")


def _labels(texts: Sequence[str]) -> dict[str, str]:
    """Patterns of metrics and what people read for each. A label has no slash: names of metrics may have `=`, too."""
    labels = {}
    for text in texts:
        label, found, pattern = text.partition("=")
        is_label = bool(found) and "/" not in label
        labels[pattern if is_label else text] = label if is_label else text
    return labels


def _find_runs(texts: Sequence[str]) -> list[tuple[str, list[Path]]]:
    """Label and directories; runs without a label have their name as one."""
    from glob import glob

    found: dict[str, list[Path]] = {}
    for text in texts:
        label, separator, pattern = text.rpartition("=") if not Path(text).exists() else ("", "", text)
        paths = sorted(glob(pattern)) if separator else [pattern]
        if not paths:
            raise ConfigError(f"{text}: nothing is called {pattern}")
        for path in paths:
            directory, config = open_run(Path(path))
            found.setdefault(label or config.name, []).append(directory.path)
    return list(found.items())


def _read(run: Path, metric: Sequence[str] | None) -> dict[str, list[tuple[float, float]]]:
    from ludus.reports.curves import DEFAULT, read_curves

    curves = read_curves(run / "metrics.jsonl", metric or DEFAULT)
    if not curves:
        raise ConfigError(f"{run} has no metric that matches {', '.join(metric or DEFAULT)} yet")
    return curves


def _ends(points: Sequence[tuple[float, float]]) -> str:
    (first, begin), (last, end) = points[0], points[-1]
    return f"{begin:.4g} at step {first:,.0f}, {end:.4g} at {last:,.0f}"
