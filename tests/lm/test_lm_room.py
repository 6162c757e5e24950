"""The room's face: light to import, and its public names exist."""

from __future__ import annotations

import subprocess
import sys

import ludus.lm


def test_importing_the_room_loads_no_pytorch() -> None:
    check = "import sys, ludus.lm; print([name for name in ('torch', 'transformers', 'jax') if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_every_public_name_can_be_had() -> None:
    for name in ludus.lm.__all__:
        assert getattr(ludus.lm, name) is not None
