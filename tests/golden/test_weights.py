"""What is trained stays the same to the bit, whatever is moved around it: each cut example ends with the recorded weights.

Bits depend on the processor and on the libraries that compute; where those are others than the table was recorded with,
there is nothing to compare, and the test says so.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from cut_examples import CUTS, TABLE, final_weights, machine

RECORDED = json.loads(TABLE.read_text())
OFTEN = ("connect_four.yaml", "leduc_league.yaml", "llm/tictactoe.yaml", "psro/kuhn.yaml")
"""One of each kind: fused, split with a league, a language model, computed. `make golden-check` runs them all."""


@pytest.mark.parametrize(
    "example", [pytest.param(name, marks=() if name in OFTEN else pytest.mark.slow) for name in CUTS]
)
def test_example_ends_with_the_recorded_weights(example: str, tmp_path: Path) -> None:
    here = machine()
    if here != RECORDED["machine"]:
        others = {key: (value, here.get(key)) for key, value in RECORDED["machine"].items() if here.get(key) != value}
        pytest.skip(f"recorded with other parts than these (recorded, here): {others}; `make golden` records anew")
    assert final_weights(example, tmp_path / "run") == RECORDED["weights"][example]


def test_table_has_every_cut_example() -> None:
    assert set(RECORDED["weights"]) == set(CUTS)
