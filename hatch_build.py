"""Refuses a wheel without the built web page; an installation for development (`pip install -e`) does without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGE = "src/ludus/web/static/index.html"


class NeedPage(BuildHookInterface[Any]):
    """Looks for the page before a wheel is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raise unless it is there."""
        if version == "standard" and not (Path(self.root) / PAGE).is_file():
            raise RuntimeError("the web page is not built; build it first: make web")
