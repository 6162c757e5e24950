"""The `ludus` command. Subcommands are the modules beside this one; heavy imports happen inside them.

Exit codes: 0 done, 1 failure with the real cause first, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import inspect
import logging
import os
import re
import resource
import sys
from importlib import import_module
from typing import Any

import typer

from ludus.errors import ConfigError, LudusError
from ludus.plugin_frames import in_words

UsageError: Any = typer.BadParameter.__mro__[1]
"""What typer raises for any misuse of the command line; which click it comes from is typer's business."""

EXIT_FAILURE, EXIT_BAD_INPUT, EXIT_INTERRUPTED = 1, 2, 130

COMMANDS = {
    "run": "run",
    "check": "run",
    "examples": "examples",
    "runs": "runs",
    "status": "control",
    "pause": "control",
    "resume": "control",
    "checkpoint": "control",
    "stop": "control",
    "logs": "logs",
    "inspect": "inspect",
    "compare": "runs",
    "tui": "tui",
    "web": "web",
    "daemon": "daemon",
    "games": "listings",
    "league": "league",
    "plot": "plot",
    "metrics": "listings",
    "replay": "inspect",
    "play": "play",
    "match": "match",
    "exploit": "exploit",
    "export": "serve",
    "serve": "serve",
    "bench": "bench",
}
"""Each command, in the order of the help, and the module that has it."""
GROUPS = ("model", "debug", "chess")
"""Commands that have commands of their own."""
TALKATIVE = ("httpcore", "httpcore2", "httpx", "httpx2", "openai")
"""Libraries that log every request at the level at which rooms log an update."""

NO_MEMORY = ("failed to map segment", "annot allocate memory", "can't start new thread", "malloc of size", "bad_alloc")
"""What libraries say when there is no memory left."""
TRACEBACK_NOTE = "the traceback is in "
"""How a run's note on its own error begins."""
ENOUGH_BYTES = 4 << 30
RAISE_LIMIT = "raise it with `ulimit -v unlimited`"

app = typer.Typer(
    name="ludus",
    help="Train policies by self-play, in leagues and on tasks.\n\n"
    "Start with: ludus run   (learns Connect Four, about three minutes)",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from ludus import __version__

        typer.echo(f"ludus {__version__}")
        raise typer.Exit()


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Log to stderr."),
) -> None:
    """Train policies by self-play, leagues and tasks."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(name)s %(message)s",
        datefmt="%H:%M:%S",
    )
    if (limit := _address_space()) is not None and limit < ENOUGH_BYTES:
        # Native libraries end the process where they get no memory, without a word that helps.
        typer.echo(
            f"the address space is limited to {limit >> 20:,} MB, and JAX and PyTorch need more: {RAISE_LIMIT}",
            err=True,
        )
    for library in TALKATIVE:
        logging.getLogger(library).setLevel(logging.WARNING)


def summary(text: str | None) -> str:
    """The first sentence of a command's help: as it is, where click would cut it to the width of the terminal."""
    paragraph = " ".join(inspect.cleandoc(text or "").partition("\n\n")[0].split())
    return re.split(r"(?<=\.) ", paragraph)[0]


def summarise(group: typer.Typer) -> None:
    """Give every command of a group, and of the groups in it, its summary."""
    for registered in group.registered_commands:
        registered.short_help = summary(registered.callback.__doc__ if registered.callback else None)
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            inner.short_help = summary(str(inner.typer_instance.info.help))
            summarise(inner.typer_instance)


for command, home in COMMANDS.items():
    function = getattr(import_module(f"ludus.cli.{home}"), command)
    app.command(name=command)(function)
for group in GROUPS:
    app.add_typer(import_module(f"ludus.cli.{group}").app, name=group)
summarise(app)


def main() -> None:
    """Entry point: run a command and turn what goes wrong into one clear message and an exit code."""
    try:
        # Without standalone mode, click returns the code of an Exit instead of raising it.
        code = app(standalone_mode=False)
        raise SystemExit(code if isinstance(code, int) else 0)
    except ConfigError as error:
        _fail(str(error), EXIT_BAD_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        _fail("interrupted", EXIT_INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has left (`ludus games | head`); say nothing more, not even at interpreter exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(EXIT_FAILURE) from None
    except LudusError as error:
        _fail(f"{str(error) or type(error).__name__}{_memory_hint(error)}{_traceback_hint(error)}", EXIT_FAILURE)
    except UsageError as error:
        hint = f"\nTry: {error.ctx.command_path} --help" if error.ctx else ""
        _fail(f"{error.format_message()}{hint}", EXIT_BAD_INPUT)
    except Exception as error:
        _crash(error)


def _crash(error: Exception) -> None:
    if logging.getLogger().isEnabledFor(logging.INFO):
        logging.getLogger(__name__).exception("unexpected error")
    what = in_words(error)
    if not str(error):
        what += ": no memory left" if isinstance(error, MemoryError) else ": no reason given"
    where = _traceback_hint(error) or "; ludus -v shows the traceback"
    _fail(f"{what}{_memory_hint(error)}{where}", EXIT_FAILURE)


def _traceback_hint(error: Exception) -> str:
    """Where the run kept the traceback, if it did; libraries leave notes of their own."""
    return "".join(f"; {note}" for note in getattr(error, "__notes__", ()) if note.startswith(TRACEBACK_NOTE))


def _address_space() -> int | None:
    """The bytes that this process may map; None where there is no limit."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def _memory_hint(error: Exception) -> str:
    """What to do when memory is what was missing; empty when it was not."""
    if not isinstance(error, MemoryError) and not any(sign in str(error) for sign in NO_MEMORY):
        return ""
    if (limit := _address_space()) is None:
        return (
            "; the machine has too little memory: free some, or write fewer explore.games_in_flight or explore.workers"
        )
    return f"; the address space is limited to {limit >> 20:,} MB: {RAISE_LIMIT}"


def _fail(message: str, code: int) -> None:
    print(f"ludus: {message}" if "\n" not in message else message, file=sys.stderr)
    raise SystemExit(code)


if __name__ == "__main__":
    main()
