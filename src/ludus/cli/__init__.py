"""The command line: a module for each command or group of commands; `ludus.cli.app:main` is the entry point."""

from typing import TYPE_CHECKING

from ludus.lazy import import_later

if TYPE_CHECKING:
    from ludus.cli.app import main

__all__ = ["main"]

__getattr__ = import_later(__name__)
