"""What the room offers, and what importing it costs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import ludus.storage


def test_every_public_name_can_be_had() -> None:
    assert all(getattr(ludus.storage, name) is not None for name in ludus.storage.__all__)


def test_importing_the_room_loads_neither_pyarrow_nor_safetensors() -> None:
    code = "import sys, ludus.storage; print(*sorted({'pyarrow', 'safetensors', 'jax', 'torch'} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": str(Path(ludus.storage.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == ""
