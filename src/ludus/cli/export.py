"""`ludus export`: take a policy out of a run, to be used elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    run: Annotated[Path, typer.Argument(help="Directory of the run.")],
    out: Annotated[Path | None, typer.Option(help="Folder to write. Default: RUN/export/<policy>-<version>.")] = None,
    policy: Annotated[str | None, typer.Option(help="Version to export, such as main@12. Default: the newest.")] = None,
    force: Annotated[bool, typer.Option(help="Replace the folder if it exists.")] = False,
) -> None:
    """Write a policy as safetensors with a JSON card: weights, network, game and weights hash.

    Example: ludus export runs/connect_four --out /tmp/connect_four
    """
    from ludus.cli.runs import open_run
    from ludus.policies import PolicyStore
    from ludus.policies.choosing import choose_policy
    from ludus.policies.export import export_policy

    directory, config = open_run(run)
    ref = choose_policy(directory, config, policy)
    target = out or directory.path / "export" / f"{ref.name}-{ref.version:08d}"
    loaded = export_policy(PolicyStore(directory.policies), ref, target, replace=force)
    typer.echo(f"{ref}  {loaded.weights_hash}  trained for {loaded.step:,} steps")
    typer.echo(f"written: {target}")
