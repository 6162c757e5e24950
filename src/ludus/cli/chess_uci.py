"""`ludus chess uci`: a network as a UCI engine."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from typing import Annotated, BinaryIO

import typer

from ludus.extras import NETWORKS, need_packages

MOST_LINE_BYTES = 1 << 20
"""Of a command; the rest of a longer line is thrown away."""


def uci(
    player: Annotated[str, typer.Argument(help="A run, RUN@VERSION, or a network (.pb.gz).")],
    nodes: Annotated[
        int, typer.Option(min=1, max=10_000_000, help="Nodes of a search that has no other limit. 1: the policy alone.")
    ] = 1,
) -> None:
    """Play as a UCI engine on stdin and stdout: give this command to any chess program as an engine.

    Example: ludus chess uci runs/chess@12 --nodes 100
    """
    need_packages("ludus chess", "ludus_chess", *NETWORKS)
    # What libraries print must not get among the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    from ludus.chess.evaluators import open_evaluator
    from ludus.chess.uci_server import UciServer

    evaluator = open_evaluator(player)
    lock = threading.Lock()

    def say(line: str) -> None:
        with lock:
            answers.write(f"{line}\n")
            answers.flush()

    if sys.stdin.isatty():
        typer.echo(f"{player} listens for UCI commands, such as: position startpos, go nodes 100, quit", err=True)
    server = UciServer(evaluator, nodes=nodes, say=say)
    server.serve(read_lines(sys.stdin.buffer))


def read_lines(file: BinaryIO) -> Iterator[str]:
    """Lines of any bytes; what is too long is cut."""
    while line := file.readline(MOST_LINE_BYTES):
        is_whole = line.endswith(b"\n")
        yield line.decode(errors="replace")
        while not is_whole and (rest := file.readline(MOST_LINE_BYTES)):
            is_whole = rest.endswith(b"\n")
