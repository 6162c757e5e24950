"""`ludus chess init` and `train`: from a directory of chunks to a run that learns from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ludus.cli.arguments import Overrides, hours_of
from ludus.errors import ConfigError
from ludus.extras import NETWORKS, need_packages

if TYPE_CHECKING:
    from ludus.chess.training.config_text import Plan

Chunks = Annotated[
    Path | None, typer.Option("--chunks", help="Directory of chunks. Default: that of the config or run.")
]
Body = Literal["residual", "attention"]


def init(
    config: Annotated[Path, typer.Argument(help="YAML file to write.")] = Path("chess.yaml"),
    chunks: Annotated[Path, typer.Option("--chunks", help="Directory of chunks; it may fill up later.")] = Path(
        "chunks"
    ),
    body: Annotated[Body, typer.Option(help="residual: convolutions. attention: squares attend to squares.")] = (
        "residual"
    ),
    layers: Annotated[int | None, typer.Option(min=1, max=128, help="Blocks or layers. Default: 6 or 4.")] = None,
    width: Annotated[int | None, typer.Option(min=4, max=4096, help="Filters or width. Default: 64 or 128.")] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="NETWORK", help="Begin with these weights: .pb.gz, run, RUN@VERSION."),
    ] = None,
    release: Annotated[
        str, typer.Option(help="Files of each round: lc0 (.pb.gz), onnx, both as lc0,onnx, or none.")
    ] = "lc0",
    new_chunks: Annotated[int, typer.Option(min=1, help="New games to wait for before each round.")] = 1000,
    updates: Annotated[int, typer.Option(min=1, help="Updates of a round, of four minibatches each.")] = 100,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds after which the run is done.")] = 100,
    weights: Annotated[
        bool, typer.Option("--weights", help="Also write runs/NAME_start with initial weights (--from always does).")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of initial weights.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace the YAML file if it is there.")] = False,
) -> None:
    """Write a commented config for training from a directory of chunks, from scratch or from a real network.

    With --from, the config has the network of the file, and its weights are put into runs/NAME_start, which
    `policy.start` names: fine-tuning is then `ludus chess train`.

    \b
    Examples:
      ludus chess init --chunks /data/chunks
      ludus chess init large.yaml --body attention --layers 10 --width 256 --release lc0,onnx
      ludus chess init fine.yaml --from maia-1100.pb.gz --chunks chunks
    """
    need_packages("ludus chess init", *NETWORKS)
    from ludus.chess.training.config_text import config_text
    from ludus.chess.training.starts import fresh_weights, write_start
    from ludus.storage.atomic import ensure_directory, write_text

    if config.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"{config}: expected a name that ends in .yaml")
    if config.exists() and not force:
        raise ConfigError(f"{config} exists; choose another name, or replace it with --force")
    folder = Path("runs") / f"{config.stem}_start"
    has_weights = weights or start is not None
    formats = () if release == "none" else tuple(release.split(","))
    if unknown := set(formats) - {"lc0", "onnx"}:
        raise ConfigError(f"--release {', '.join(sorted(unknown))}: expected lc0, onnx, lc0,onnx or none")
    sizes: dict[str, Any] = {"release": formats, "new_chunks": new_chunks, "updates": updates, "rounds": rounds}
    plan, begins, steps = _plan(config.stem, chunks, body, layers, width, start, folder if has_weights else None, sizes)
    text = config_text(plan)
    if has_weights:
        write_start(folder, text, begins or fresh_weights(plan.network, seed), steps=steps)
        typer.echo(f"written: {folder}  (ludus chess describe {folder})")
    ensure_directory(config.absolute().parent)
    write_text(config, text)
    typer.echo(f"written: {config}  (train: ludus chess train {config})")


def _plan(
    name: str,
    chunks: Path,
    body: Body,
    layers: int | None,
    width: int | None,
    start: str | None,
    folder: Path | None,
    sizes: dict[str, Any],
) -> tuple[Plan, Any, int]:
    """What to write, and the weights to begin with, with the steps they were trained for."""
    from ludus.chess.network_source import open_network
    from ludus.chess.training.config_text import Plan

    shared: dict[str, Any] = {**sizes, "name": name, "directory": str(chunks), "start": str(folder) if folder else None}
    if start is None:
        return Plan(network=_network(body, layers, width), **shared), None, 0
    if layers is not None or width is not None:
        raise ConfigError("--from: the network's own size counts; leave out --layers and --width, or see migrate")
    source = open_network(start)
    made = Plan(network=source.chess_network(), input_format=source.input_format, learning_rate=1e-4, **shared)
    return made, source.weights, source.steps


def _network(body: Body, layers: int | None, width: int | None) -> Any:
    from ludus.config import ChessAttentionConfig, ChessResidualConfig

    if body == "residual":
        return ChessResidualConfig(kind="chess_residual", blocks=layers or 6, filters=width or 64)
    if width is not None and width % 4:
        raise ConfigError(f"--width {width}: expected a multiple of 4, for the 4 heads of each layer")
    return ChessAttentionConfig(kind="chess_attention", layers=layers or 4, width=width or 128)


def train(
    source: Annotated[Path, typer.Argument(metavar="CONFIG|CHUNKS", help="YAML file, or a directory of chunks.")],
    overrides: Overrides = None,
    run_dir: Annotated[Path | None, typer.Option(help="Where the run lives. Default: runs/<name>.")] = None,
    length: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="Train for at most 2h, 90m, 1h30m, ... in all.")
    ] = None,
    from_scratch: Annotated[bool, typer.Option("--from-scratch", help="Begin anew; see ludus run --help.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
    json_lines: Annotated[bool, typer.Option("--json", help="Print one JSON object per report.")] = False,
) -> None:
    """Train a chess network, or resume: `ludus run` for a config, or for a directory with the config that init writes.

    A round waits for new chunks, trains, and releases a network; Ctrl-C saves and stops, the same command resumes.

    \b
    Examples:
      ludus chess train chess.yaml
      ludus chess train chess.yaml train.optimizer.learning_rate=0.0005 --for 8h
      ludus chess train /data/chunks cycle.new_sequences=200 --run-dir runs/first
    """
    need_packages("ludus chess train", "ludus_chess", *NETWORKS)
    from ludus.cli.run import host
    from ludus.config import load_or_demo, parse_resolved
    from ludus.daemon.launch import open_loop

    changes = [*(overrides or []), *([] if length is None else [f"train.hours={hours_of(length)!r}"])]
    if source.is_dir():
        from ludus.chess.training.config_text import Plan, config_text

        plan = Plan(name="chess", directory=str(source), network=_network("residual", None, None))
        loaded = parse_resolved(config_text(plan), "chess.yaml", changes)
    else:
        loaded = load_or_demo(source, changes)
    if not loaded.policy.network.kind.startswith("chess_"):
        raise ConfigError(
            f"{source}: policy.network.kind is {loaded.policy.network.kind}, no chess network; start it with ludus run"
        )
    host(open_loop(loaded, run_dir=run_dir, from_scratch=from_scratch), quiet=quiet, json_lines=json_lines)
