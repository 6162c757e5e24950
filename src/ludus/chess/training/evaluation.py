"""A network measured on whole games: every loss of an objective, agreement with the targets, and their intervals.

Positions of one game resemble each other, so intervals are those of a mean over games of several positions
(cluster-robust): as wide as the number of games makes them, however many positions each has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ludus.chess.learner import ChessBatch
from ludus.chess.losses import Targets, build_terms, wdl_target
from ludus.chess.network_source import NetworkSource
from ludus.chess.training.record_tensors import Game, Refused, batch_of
from ludus.config import TermConfig
from ludus.errors import ConfigError
from ludus.records import derive_seed

BATCH = 256
_Z95 = 1.959964
Rows = dict[str, NDArray[Any]]


class Measured(NamedTuple):
    """A mean over positions and its 95 % interval."""

    mean: float
    low: float
    high: float
    positions: int


@dataclass(slots=True, kw_only=True)
class Report:
    """What an evaluation found so far."""

    games: int = 0
    positions: int = 0
    refused: list[str] = field(default_factory=list)
    sums: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    """By metric, for each game: sum, and positions that have the target."""

    def add(self, rows: Rows) -> None:
        """A game's numbers for each position, NaN where a target is missing."""
        self.games += 1
        self.positions += len(next(iter(rows.values())))
        for name, values in rows.items():
            known = values[~np.isnan(values)]
            self.sums.setdefault(name, []).append((float(known.sum(dtype=np.float64)), len(known)))

    def measured(self) -> dict[str, Measured]:
        """All metrics; those without any target are left out."""
        found = {name: _clustered(sums) for name, sums in self.sums.items()}
        return {name: each for name, each in found.items() if each is not None}


def _clustered(sums: list[tuple[float, int]]) -> Measured | None:
    totals, counts = (np.array(column, np.float64) for column in zip(*sums, strict=True))
    positions, games = int(counts.sum()), int((counts > 0).sum())
    if not positions:
        return None
    mean = float(totals.sum() / positions)
    spread = float("nan")
    if games > 1:
        residuals = totals - mean * counts
        spread = _Z95 * float(np.sqrt((residuals**2).sum() * games / (games - 1))) / positions
    return Measured(mean, mean - spread, mean + spread, positions)


def evaluate(
    source: NetworkSource,
    games: Iterable[Game | Refused],
    objective: tuple[TermConfig, ...],
    *,
    per_game: int | None = None,
    most_games: int | None = None,
    seed: int = 0,
    progress: Callable[[Report], None] = lambda report: None,
) -> Report:
    """Measure a network.

    Args:
        source: The network.
        games: As `read_games` gives them.
        objective: Losses to measure.
        per_game: Positions of each game, drawn by `seed` and the game's number; None: all.
        most_games: After which it ends.
        progress: Called after each game.
    """
    measure = _Measure(source, objective)
    report, waiting = Report(), list[NDArray[Any]]()

    def flush(least: int) -> None:
        while waiting and sum(map(len, waiting)) >= least:
            taken, count = list[NDArray[Any]](), 0
            while waiting and (not taken or count + len(waiting[0]) <= BATCH):
                count += len(waiting[0])
                taken.append(waiting.pop(0))
            rows = measure(batch_of(np.concatenate(taken)))
            ends = np.cumsum([len(each) for each in taken])
            for begin, end in zip((0, *ends[:-1]), ends, strict=True):
                report.add({name: values[begin:end] for name, values in rows.items()})
            progress(report)

    seen = 0
    for each in games:
        if isinstance(each, Refused):
            report.refused.append(each.problem)
            continue
        waiting.append(_drawn(each.records, per_game, seed, seen))
        seen += 1
        flush(BATCH)
        if most_games is not None and seen >= most_games:
            break
    flush(1)
    if not report.games:
        why = f"; the first refusal: {report.refused[0]}" if report.refused else ""
        raise ConfigError(f"there are no games to measure on{why}")
    return report


def _drawn(records: NDArray[Any], per_game: int | None, seed: int, number: int) -> NDArray[Any]:
    if per_game is None or len(records) <= per_game:
        return records
    generator = np.random.default_rng(derive_seed(seed, "evaluation", number))
    return records[np.sort(generator.choice(len(records), per_game, replace=False))]


class _Measure:
    """The compiled program with the weights; batches of any size, in parts of one."""

    def __init__(self, source: NetworkSource, objective: tuple[TermConfig, ...]) -> None:
        self._program = jax.jit(_program(source, objective))
        self._params = {name: jnp.asarray(tensor) for name, tensor in source.weights.items()}

    def __call__(self, batch: ChessBatch) -> Rows:
        parts: list[Rows] = []
        for start in range(0, len(batch.planes), BATCH):
            part = ChessBatch(*(tensor[start : start + BATCH] for tensor in batch))
            fills = (0.0, np.nan, np.nan)
            padded = ChessBatch(*(_padded(tensor, fill) for tensor, fill in zip(part, fills, strict=True)))
            found = self._program(self._params, padded)
            parts.append({name: np.asarray(rows)[: len(part.planes)] for name, rows in found.items()})
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _padded(tensor: Any, fill: float) -> Any:
    full = np.full((BATCH, *tensor.shape[1:]), fill, np.float32)
    full[: len(tensor)] = tensor
    return full


def _program(source: NetworkSource, objective: tuple[TermConfig, ...]) -> Callable[..., dict[str, jax.Array]]:
    network, heads = source.shape.build(), source.chess_network().heads
    terms = build_terms(objective)

    def measure(params: Any, batch: ChessBatch) -> dict[str, jax.Array]:
        outputs = network.module(params).outputs(jnp.moveaxis(batch.planes, 1, -1))
        targets = Targets(batch.policy, batch.values)
        found: dict[str, jax.Array] = {}
        for term in terms:
            rows = term(outputs, targets)
            found[term.name] = jnp.where(rows.is_there, rows.loss, jnp.nan)
        has_policy = jnp.sum(jnp.maximum(jnp.nan_to_num(batch.policy, nan=-1.0), 0.0), axis=-1) > 0
        legal = batch.policy >= 0
        logits = jnp.where(legal, outputs.policy[heads.main_policy], -jnp.inf)
        first, wanted = jnp.argmax(logits, axis=-1), jnp.argmax(jnp.nan_to_num(batch.policy, nan=-1.0), axis=-1)
        found["policy_top1"] = jnp.where(has_policy, (first == wanted).astype(jnp.float32), jnp.nan)
        odds = jax.nn.softmax(outputs.value[heads.main_value])
        wdl, is_there = wdl_target(targets, "result")
        right = (jnp.argmax(odds, axis=-1) == jnp.argmax(wdl, axis=-1)).astype(jnp.float32)
        found["wdl_accuracy"] = jnp.where(is_there, right, jnp.nan)
        found["wdl_brier"] = jnp.where(is_there, jnp.sum((odds - wdl) ** 2, axis=-1), jnp.nan)
        if outputs.moves_left:
            main = "main" if "main" in outputs.moves_left else next(iter(outputs.moves_left))
            found["moves_left_error"] = jnp.abs(outputs.moves_left[main] - batch.values[:, 0, 2])
        return found

    return measure
