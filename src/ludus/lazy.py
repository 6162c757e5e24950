"""Packages that stay light: a name is imported from its module when it is first used.

The imports under `if TYPE_CHECKING:` in a package's `__init__.py` say where each name lives, to type checkers and to
`import_later`. To offer a name: an import there, and its entry in `__all__`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any


def import_later(package: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package: what it imports under `if TYPE_CHECKING:`, imported when it is first used."""

    def find(name: str) -> Any:
        homes = _homes(package)
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return find


@cache
def _homes(package: str) -> dict[str, str]:
    """The module of each name."""
    import ast
    from pathlib import Path

    source = Path(str(sys.modules[package].__file__)).read_text(encoding="utf-8")
    blocks = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}
