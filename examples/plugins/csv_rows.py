"""A data source: positions and the moves to imitate, from a CSV file that the trainer itself reads.

The columns `see_0`, `see_1`, ... hold what a seat sees, `action` what it should do. No row goes through the run's loop:
the trainer asks the loader for each batch, and saves its place with the weights, so that a resume is exact.

    ludus run examples/plugins/csv_rows.yaml --plugin examples/plugins/csv_rows.py
"""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ludus import RunConfig, register_loader
from ludus.errors import ConfigError
from ludus.records import Experiences, derive_seed


class CsvRows:
    """Every row once an epoch, in an order that follows from the seed."""

    def __init__(self, *, config: RunConfig, seed: int, path: str, rows: int = 64) -> None:
        if not Path(path).is_file():
            raise ConfigError(f"buffer.loader.options.path: there is no file {path}")
        with Path(path).open(newline="") as file:
            table = list(csv.DictReader(file))
        seen = [name for name in table[0] if name.startswith("see_")]
        self.observation = np.array([[row[name] for name in seen] for row in table], np.float32)
        self.action = np.array([row["action"] for row in table], np.int32)
        self.seed, self.rows = seed, rows
        self.taken = 0

    def next(self) -> Experiences:
        """The next rows, as sequences of one step each."""
        places = np.array([self._place(number) for number in range(self.taken, self.taken + self.rows)])
        self.taken += self.rows
        zeros = np.zeros(self.rows, np.float32)
        steps = {
            "observation": self.observation[places],
            "action": self.action[places],
            "mask": np.ones(self.rows, bool),
            "logp": zeros,
            "value": zeros,
            "reward": zeros,
        }
        source = np.array(["expert"] * self.rows, object)
        return Experiences(sequences={"source": source}, offsets=np.arange(self.rows + 1), steps=steps)

    def state(self) -> dict[str, Any]:
        """How many rows were taken."""
        return {"taken": self.taken}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue behind them."""
        self.taken = int(state["taken"])

    def close(self) -> None:
        """The file is read whole, and closed already."""

    def _place(self, number: int) -> int:
        """Which row is taken as this one: a permutation of all rows for each epoch."""
        epoch, place = divmod(number, len(self.action))
        order = np.random.default_rng(derive_seed(self.seed, "csv", epoch)).permutation(len(self.action))
        return int(order[place])


register_loader("csv", CsvRows)
