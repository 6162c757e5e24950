"""A run's policies, used elsewhere: `ludus serve` over the OpenAI API, `ludus export` as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ludus.cli.arguments import Run, open_run
from ludus.extras import LANGUAGE_MODELS, need_packages


def serve(
    run: Run,
    host: Annotated[str, typer.Option(help="Address to listen on. Others than this machine's own need a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes any that is free.", min=0, max=65535)] = 8000,
    threads: Annotated[
        int, typer.Option(help="Threads for the model. With one, a seed gives the same reply again.", min=1)
    ] = 1,
    max_in_flight: Annotated[int, typer.Option(help="Requests worked on at the same time.", min=1)] = 64,
) -> None:
    """Serve every version of a run's language model over the OpenAI API: models, chat completions, streaming.

    Models are named main (the newest version), main@12, and so on. The environment variable LUDUS_SERVE_TOKEN, when it
    is set, is the key that clients must send; listening on any address but this machine's own needs it.

    Example: ludus serve runs/tictactoe --port 8000
    """
    need_packages("ludus serve", "starlette", *LANGUAGE_MODELS, "uvicorn")
    from ludus.http.routes import read_token
    from ludus.http.server import bind, url_of
    from ludus.http.server import run as run_server
    from ludus.serve.app import make_app, open_service

    directory, config = open_run(run)
    token = read_token()
    with bind(host, port, token=token) as listener:
        service = open_service(directory, config, threads=threads, max_in_flight=max_in_flight)
        newest, *versions = [card["id"] for card in service.members.cards()]
        typer.echo(
            f"serving {newest} from {directory.path}; versions: {len(versions)}, {versions[-1]} to {versions[0]}"
        )
        typer.echo(f"{url_of(listener)}  {'with' if token else 'without'} a token; stop with Ctrl-C")
        run_server(make_app(service, token=token), listener)


def export(
    run: Annotated[Path, typer.Argument(help="Directory of the run.")],
    out: Annotated[Path | None, typer.Option(help="Folder to write. Default: RUN/export/<policy>-<version>.")] = None,
    policy: Annotated[str | None, typer.Option(help="Version to export, such as main@12. Default: the newest.")] = None,
    force: Annotated[bool, typer.Option(help="Replace the folder if it exists.")] = False,
) -> None:
    """Write a policy as safetensors with a JSON card: weights, network, game and weights hash.

    Example: ludus export runs/connect_four --out /tmp/connect_four
    """
    from ludus.policies import PolicyStore
    from ludus.policies.export import export_policy
    from ludus.policies.store import choose_policy

    directory, config = open_run(run)
    ref = choose_policy(directory, config, policy)
    target = out or directory.path / "export" / f"{ref.name}-{ref.version:08d}"
    loaded = export_policy(PolicyStore(directory.policies), ref, target, replace=force)
    typer.echo(f"{ref}  {loaded.weights_hash}  trained for {loaded.step:,} steps")
    typer.echo(f"written: {target}")
