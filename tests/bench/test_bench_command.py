"""`ludus bench` knows its benchmarks by name."""

from __future__ import annotations

from pathlib import Path

import pytest

import ludus
from ludus.cli.bench import NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_is_a_function_of_its_own_module(name: str) -> None:
    module = Path(ludus.__file__).parent / "bench" / f"{name}.py"
    assert f"def bench_{name}(" in module.read_text()
