"""`ludus chess describe`, `convert` and `migrate`: networks in files and runs, looked at and in other forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ludus.cli.arguments import AsJson, Overrides
from ludus.errors import ConfigError
from ludus.extras import NETWORKS, need_packages

Network = Annotated[
    str, typer.Argument(metavar="NETWORK", help="An lc0 file (.pb.gz), a run, RUN@VERSION, a checkpoint, or an export.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]


def describe(
    network: Network,
    tensors: Annotated[bool, typer.Option("--tensors", help="List every tensor: shape, mean, spread, range.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what a network is: body, heads, formats, activations, parameters; of a run also versions and checkpoints.

    \b
    Examples:
      ludus chess describe maia-1100.pb.gz
      ludus chess describe runs/chess@12 --tensors
    """
    need_packages("ludus chess describe", *NETWORKS)
    from ludus.chess.network_source import open_network
    from ludus.chess.training.description import describe as facts_of
    from ludus.chess.training.description import tensor_rows

    source = open_network(network)
    facts, rows = facts_of(source, network), tensor_rows(source) if tensors else []
    if as_json:
        typer.echo(json.dumps({**facts, **({"tensors_by_name": rows} if tensors else {})}, indent=1))
        return
    for name, value in facts.items():
        _show(name, value)
    if rows:
        width = max(len(row["name"]) for row in rows)
        typer.echo(f"\n{'tensor':<{width}}  {'shape':>14}  {'mean':>10}  {'std':>10}  {'min':>10}  {'max':>10}")
        for row in rows:
            numbers = "  ".join(f"{row[key]:>10.4g}" for key in ("mean", "std", "min", "max"))
            typer.echo(f"{row['name']:<{width}}  {row['shape']:>14}  {numbers}")


def convert(
    network: Network,
    target: Annotated[Path, typer.Argument(help="NAME.pb.gz, NAME.onnx, or a directory for a run of ludus.")],
    encoding: Annotated[
        str, typer.Option(help="Of weights in a .pb.gz: LINEAR16, FLOAT16, BFLOAT16, FLOAT32; lc0 reads LINEAR16.")
    ] = "LINEAR16",
    force: Force = False,
) -> None:
    """Write a network in another form: for lc0 (.pb.gz), as ONNX (.onnx), or as a run that ludus can begin with.

    A .pb.gz that is read and written unchanged keeps its bytes. A .pb.gz of a residual tower has room for one policy
    and one value head: others are left out with a warning, and ONNX has them all. A directory becomes a run with one
    version, for `policy.start`, `ludus chess uci`, `ludus match` and the rest.

    \b
    Examples:
      ludus chess convert runs/chess network.pb.gz
      ludus chess convert runs/chess@12 network.onnx
      ludus chess convert maia-1100.pb.gz runs/maia
    """
    need_packages("ludus chess convert", *NETWORKS)
    from ludus.chess.network_source import open_network
    from ludus.chess.training.conversion import convert as write

    omitted = write(open_network(network), target, encoding=encoding, replace=force)
    if omitted:
        typer.echo(f"not in {target}, for lc0's format has no place for them: {', '.join(omitted)}", err=True)
    size = f"  {target.stat().st_size:,} bytes" if target.is_file() else f"  (ludus chess describe {target})"
    typer.echo(f"written: {target}{size}")


def migrate(
    network: Network,
    config: Annotated[Path, typer.Argument(help="YAML whose policy.network the weights are for.")],
    overrides: Overrides = None,
    out: Annotated[
        Path | None, typer.Option(help="Run directory to write, for policy.start. Default: runs/<name>_start.")
    ] = None,
    rename: Annotated[
        list[str] | None, typer.Option(metavar="OLD=NEW", help="Names that changed, as policy.vanilla=policy.soft.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the weights that begin afresh.")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would become of each tensor; write nothing.")] = (
        False
    ),
    as_json: AsJson = False,
) -> None:
    """Bring a network's weights to another config: more layers, other heads, an older run, another trainer's file.

    Tensors of the same name and shape are kept; new ones begin as in a fresh network; what the config has no place for
    is dropped. All of them are listed. Heads that have another name now: --rename.

    \b
    Examples:
      ludus chess migrate runs/old larger.yaml --dry-run
      ludus chess migrate maia-1100.pb.gz chess.yaml --out runs/chess_start
      ludus chess migrate runs/old new.yaml --rename policy.vanilla=policy.soft
    """
    need_packages("ludus chess migrate", *NETWORKS)
    from ludus.chess.network_source import open_network
    from ludus.chess.training.migration import migrate as put
    from ludus.chess.training.migration import parse_renames
    from ludus.chess.training.starts import fresh_weights, write_start
    from ludus.config import ChessAttentionConfig, ChessResidualConfig, dump_config, load_or_demo

    source, loaded = open_network(network), load_or_demo(config, overrides or ())
    wanted = loaded.policy.network
    if not isinstance(wanted, ChessAttentionConfig | ChessResidualConfig):
        raise ConfigError(f"{config}: policy.network.kind is {wanted.kind}; expected chess_residual or chess_attention")
    done = put(source.weights, fresh_weights(wanted, seed), parse_renames(rename or ()))
    target = out or Path("runs") / f"{loaded.name}_start"
    if not done.kept:
        raise ConfigError(f"{network} has no tensor that fits {config}: nothing would be kept")
    if not dry_run:
        write_start(target, dump_config(loaded), done.weights, steps=source.steps)
    if as_json:
        fates = {"kept": done.kept, "fresh": done.fresh, "misfits": done.misfits, "dropped": done.dropped}
        typer.echo(json.dumps({**fates, "written": None if dry_run else str(target)}, indent=1))
        return
    for word, names in (("begins afresh", done.fresh), ("other shape", done.misfits), ("dropped", done.dropped)):
        for name in names:
            typer.echo(f"{word:<14}{name}")
    counts = done.counts()
    typer.echo(
        f"{counts['kept']:,} tensors kept, {counts['fresh'] + counts['misfits']:,} begin afresh, "
        f"{counts['dropped'] + counts['misfits']:,} dropped"
    )
    if not dry_run:
        typer.echo(f"written: {target}; begin with it: policy.start: {target}")


def _show(name: str, value: Any) -> None:
    lines = value if isinstance(value, list) else [f"{value:,}" if isinstance(value, int) else str(value)]
    for place, line in enumerate(lines or ["none"]):
        typer.echo(f"{name.replace('_', ' ') if not place else '':<18}{line}")
