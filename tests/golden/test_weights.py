"""What is trained stays the same to the bit, whatever is moved around it: each cut example ends with the recorded weights.

Bits depend on the processor and on the libraries that compute; on a machine that the table was not recorded on there is
nothing to compare, and the test says so.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from cut_examples import CUTS, final_weights, machine, recorded

OFTEN = ("connect_four.yaml", "leduc_league.yaml", "llm/tictactoe.yaml", "psro/kuhn.yaml")
"""One of each kind: fused, split with a league, a language model, computed. `make golden-check` runs them all."""


@pytest.mark.parametrize(
    "example", [pytest.param(name, marks=() if name in OFTEN else pytest.mark.slow) for name in CUTS]
)
def test_example_ends_with_the_recorded_weights(example: str, tmp_path: Path) -> None:
    entry = next((entry for entry in recorded() if entry["machine"] == machine()), None)
    if entry is None:
        pytest.skip(f"not recorded on such a machine: {machine()}; `make golden` records it")
    assert final_weights(example, tmp_path / "run") == entry["weights"][example]


def test_every_machine_of_the_table_has_every_cut_example() -> None:
    assert recorded()
    for entry in recorded():
        assert set(entry["weights"]) == set(CUTS)
