"""Refuses a wheel without the built web page and the licences of what is in it.

An installation for development (`pip install -e`) does without.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGE = ("index.html", "NOTICES.txt")
FOLDER = "src/ludus/web/static"


class NeedPage(BuildHookInterface[Any]):
    """Looks for the page before a wheel is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raise unless it is there."""
        folder = Path(self.root) / FOLDER
        if version == "standard" and not all((folder / name).is_file() for name in PAGE):
            raise RuntimeError("the web page is not built; build it first: make web")
