"""Every room can be the first that is imported: no import works only because another came before it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ludus

ROOT = Path(ludus.__file__).parent
FIRST = ["ludus.loop", *sorted(f"ludus.{path.parent.name}" for path in ROOT.glob("*/__init__.py"))]
SCRIPT = """
import importlib, sys
for name in sys.argv[1:]:
    for loaded in [module for module in sys.modules if module.partition(".")[0] == "ludus"]:
        del sys.modules[loaded]
    importlib.import_module(name)
"""


def test_any_room_can_be_imported_first() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *FIRST], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
