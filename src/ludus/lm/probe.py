"""A short text that trainer and inference server both score, to see that the server has the weights it says it has.

The trainer scores it after each update; what it thinks is published beside the weights. Invariant: nothing here loads
a model.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ludus.errors import CorruptRecord
from ludus.storage.atomic import json_bytes

PROBE = "probe.json"
"""In the folder of a version."""
TEXT = (
    "The committee met on 14 March 1987 to decide whether 3 x 17 = 51 was a prime number; it is not. "
    "def area(r): return 3.14159 * r ** 2  # circles. Move e2-e4, then <answer>42</answer>."
)
MOST_TOKENS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Tokens, and what weights think of all but the first."""

    tokens: tuple[int, ...]
    logps: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """JSON from which `from_json` makes it again."""
        return {"tokens": list(self.tokens), "logps": list(self.logps)}

    @classmethod
    def from_json(cls, values: Any) -> Probe:
        """The inverse of `to_json`. Raises ValueError, KeyError or TypeError for something else."""
        tokens, logps = tuple(map(int, values["tokens"])), tuple(map(float, values["logps"]))
        if len(logps) < 1 or len(tokens) != len(logps) + 1:
            raise ValueError(f"{len(tokens)} tokens and {len(logps)} log-probabilities")
        return cls(tokens=tokens, logps=logps)

    def distance(self, logps: Any) -> float:
        """How far the log-probabilities of somebody else are from these, on average."""
        return float(np.mean(np.abs(np.asarray(logps, np.float64) - np.asarray(self.logps, np.float64))))


def probe_tokens(tokenizer: Any) -> list[int]:
    """The probe's text in a model's tokens."""
    return [int(token) for token in tokenizer.encode(TEXT, add_special_tokens=False)[:MOST_TOKENS]]


def probe_files(values: dict[str, Any]) -> dict[str, bytes]:
    """The file that is published beside weights; none where there is no probe."""
    return {PROBE: json_bytes(Path(PROBE), values)} if values else {}


def read_probe(folder: Path) -> Probe | None:
    """The probe of a version; None where its trainer had none. Raises CorruptRecord for a file that is no probe."""
    path = folder / PROBE
    try:
        return Probe.from_json(json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorruptRecord(f"{path} is no probe: {error}") from error
