"""Loaders for tests, as a plugin: games of tic-tac-toe whose rows follow from numbers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from ludus import register_loader
from ludus.records import Experiences


def make_rows(seed: list[int], names: list[str]) -> Experiences:
    """A sequence of one step for each name."""
    rng, n = np.random.default_rng(seed), len(names)
    final = rng.choice([-1.0, 1.0], n).astype(np.float32)
    return Experiences(
        sequences={
            "episode": np.array(names, object),
            "task": np.arange(n),
            "attempt": np.zeros(n, np.int64),
            "game": np.full(n, "open_spiel:tic_tac_toe", object),
            "seat": np.zeros(n, np.int64),
            "policy": np.full(n, "main", object),
            "group": np.full(n, "", object),
            "final_reward": final,
            "shaped_reward": final.copy(),
            "truncated": np.zeros(n, np.bool_),
        },
        offsets=np.arange(n + 1),
        steps={
            "action": rng.integers(0, 9, n).astype(np.int32),
            "mask": np.ones(n, np.bool_),
            "logp": np.full(n, -np.log(9.0), np.float32),
            "value": np.zeros(n, np.float32),
            "reward": final.copy(),
            "version": np.zeros(n, np.int32),
            "legal": np.ones((n, 9), np.bool_),
            "observation": rng.integers(0, 2, (n, 3, 3, 3)).astype(np.float32),
        },
    )


class Numbered:
    """Rows without an end."""

    def __init__(self, *, config: Any, seed: int, rows: int) -> None:
        self.rows, self.seed, self.next_row = rows, seed, 0

    def next(self) -> Experiences:
        first, self.next_row = self.next_row, self.next_row + self.rows
        return make_rows([self.seed, first], [f"row-{first + i}" for i in range(self.rows)])

    def state(self) -> dict[str, Any]:
        return {"next_row": self.next_row}

    def load_state(self, state: dict[str, Any]) -> None:
        self.next_row = state["next_row"]

    def close(self) -> None:
        pass


class Waiting(Numbered):
    """Gives some rows, and then waits for a file that tells it to go on."""

    def __init__(self, *, config: Any, seed: int, waiting: Any, rows: int, then: int, until: str) -> None:
        super().__init__(config=config, seed=seed, rows=rows)
        self.waiting, self.then, self.until = waiting, then, Path(until)

    def next(self) -> Experiences:
        while self.next_row >= self.then and not self.until.exists():
            self.waiting()
            time.sleep(0.001)
        return super().next()


class Files:
    """A sequence for each file of a directory, in order of their names; rows repeat as often as needed."""

    def __init__(self, *, config: Any, seed: int, directory: str, rows: int) -> None:
        self.directory, self.rows, self.seed = Path(directory), rows, seed
        self.admitted, self.pulled = 0, 0
        self.admissions: list[list[int]] = []

    def new_sequences(self) -> int:
        return len(list(self.directory.glob("*.txt"))) - self.admitted

    def admit(self, sequences: int) -> None:
        self.admitted += sequences
        self.admissions.append([self.pulled, sequences])

    def stages(self) -> list[Any]:
        return []

    def next(self) -> Experiences:
        if not self.admitted:
            raise RuntimeError("pulled before anything was admitted")
        seed = [self.seed, self.pulled, self.admitted]
        self.pulled += 1
        return make_rows(seed, [f"{self.pulled}-{i}" for i in range(self.rows)])

    def state(self) -> dict[str, Any]:
        return {"admitted": self.admitted, "pulled": self.pulled, "admissions": self.admissions}

    def load_state(self, state: dict[str, Any]) -> None:
        self.admitted, self.pulled, self.admissions = state["admitted"], state["pulled"], state["admissions"]

    def close(self) -> None:
        pass


for kind, factory in (("numbered", Numbered), ("waiting", Waiting), ("files", Files)):
    register_loader(kind, factory)
