"""`ludus web`: every run below a folder in the browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from ludus.errors import ConfigError
from ludus.extras import need_packages

TOKEN_REMEDY = "give one with --token-file FILE"  # noqa: S105  words, not a token


def web(
    folder: Annotated[Path, typer.Argument(metavar="[RUNS]", help="Folder with runs at any depth, or one run.")] = Path(
        "runs"
    ),
    host: Annotated[str, typer.Option(help="Address to listen on. Others than this machine's own need a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes any that is free.", min=0, max=65535)] = 8088,
    control: Annotated[bool, typer.Option("--control", help="Allow commands: pause, stop, set and others.")] = False,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token that browsers need (16 characters or more).")
    ] = None,
    opens: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Show runs in the browser, live or finished: lists, curves, comparisons, the league, episodes.

    A process of its own that only reads; ending it changes no run. With --control, the printed address lets one browser
    give commands. Nothing is loaded from the network.

    \b
    Examples:
      ludus web
      ludus web /data/study --port 9000
      ludus web runs/connect_four --control --open
    """
    need_packages("ludus web", "starlette", "uvicorn")
    from ludus.http.server import bind, origin_of
    from ludus.http.server import run as run_server
    from ludus.web.app import MOST_CONNECTIONS, make_app
    from ludus.web.runs_folder import RunsFolder
    from ludus.web.security.sessions import Sessions
    from ludus.web.site import Site
    from ludus.web.static_page import read_page

    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder; start a run with: ludus run")
    page, token = read_page(), _read_token(token_file)
    with bind(host, port, token=token, remedy=TOKEN_REMEDY) as listener:
        sessions = Sessions(token=token, control=control, port=listener.getsockname()[1])
        site = Site(RunsFolder(folder), sessions)
        address = origin_of(listener) + "/"
        if sessions.control_token:
            # Behind the sign of a fragment: browsers keep it to themselves.
            address += f"#token={sessions.control_token}"
        typer.echo(f"runs below {folder}: {address}")
        mode = (
            "this address lets one browser give commands, once" if control else "read only; --control allows commands"
        )
        typer.echo(f"{mode}{'; others need the token' if token else ''}; stop with Ctrl-C")
        if opens:
            webbrowser.open(address)
        run_server(
            make_app(site, page, host=host),
            listener,
            shutdown_s=2,
            most_connections=MOST_CONNECTIONS,
            on_shutdown=site.newsroom.end_streams,
        )


def _read_token(file: Path | None) -> str:
    from ludus.http.routes import check_token

    if file is None:
        return ""
    try:
        return check_token(file.read_text().strip(), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--token-file {file} cannot be read: {error}") from error
