"""When to play and when to train: the rate limiter, as two functions of plain numbers.

Both sides wait for each other. The trainer waits while a batch is not there (`may_claim`); explorers wait while enough
is there or on its way (`rows_wanted`): no more than the trainer can consume before it grows too old. For `reuse` 1 that
is the rule `accepted + running < (max_staleness + version + 1) * batch`, written with what is in stock instead of with
counts since the start, so that rows which are dropped or refused are asked for again. Where a version lasts for
`interval` updates, what is played with it can be trained on in so many times as many, less those that it has had.

No deadlock: if nothing is claimed and `may_claim` is false, then `rows_wanted` is at least 1, and each row that arrives
brings the missing number down by one; while something is claimed, the trainer is at work and will commit or abandon.
Rows that rest (`buffer.cooldown`) are not waited for: they rest until others have been trained on.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from ludus.config import BufferConfig
from ludus.errors import ConfigError

BATCHES_KEPT = 8
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a buffer was asked to keep to. All in sequences (rows)."""

    batch_rows: int
    capacity: int
    min_size: int
    reuse: int
    samples_per_insert: float
    max_staleness: int | None
    """None: rows never grow too old, and explorers fill the window."""
    interval: int = 1
    """Updates between two versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """What a buffer has."""

    size: int
    """Rows in the window."""
    eligible: int
    """Rows that one more batch may use."""
    slots: int
    """Uses that are left in all rows together."""
    inserted: int
    """Rows inserted since the start of the run."""
    sampled: int
    """Rows given out since the start of the run, claimed ones included."""
    claims: int
    """Batches given out and neither committed nor abandoned."""
    unpublished: int = 0
    """Updates since the version was published that is played with now."""


def make_limits(config: BufferConfig, *, batch_rows: int, max_staleness: int | None, interval: int = 1) -> Limits:
    """Fill in the defaults and refuse what could never give a batch."""
    limits = Limits(
        batch_rows=batch_rows,
        capacity=config.capacity or max(BATCHES_KEPT * batch_rows, config.min_size or 0),
        min_size=config.min_size or batch_rows,
        reuse=config.reuse,
        samples_per_insert=config.samples_per_insert or float(config.reuse),
        max_staleness=max_staleness,
        interval=interval,
    )
    problems = []
    if limits.capacity < batch_rows:
        problems.append(f"buffer.capacity: {limits.capacity} sequences cannot hold a batch of {batch_rows}")
    if limits.capacity < limits.min_size:
        problems.append(f"buffer.capacity: {limits.capacity} is below buffer.min_size {limits.min_size}")
    if problems:
        raise ConfigError(*problems)
    return limits


def may_claim(limits: Limits, stock: Stock) -> bool:
    """Whether a batch can be taken now."""
    return _rows_missing(limits, stock) == 0


def rows_wanted(limits: Limits, stock: Stock) -> int:
    """Rows that explorers should bring, those on their way included."""
    ahead: float = limits.capacity - stock.size
    if limits.max_staleness is not None:
        supply = min(stock.slots, _uses_allowed(limits, stock))
        updates = (limits.max_staleness + 1) * limits.interval - stock.unpublished - stock.claims
        budget = updates * limits.batch_rows - supply
        ahead = min(ahead, budget / min(limits.samples_per_insert, limits.reuse))
    missing = _rows_missing(limits, stock) if stock.claims == 0 else 0
    return max(ceil(ahead - _ROUNDING), missing, 0)


def _rows_missing(limits: Limits, stock: Stock) -> int:
    """Fresh rows without which no batch can be taken."""
    for_ratio = (limits.batch_rows - _uses_allowed(limits, stock)) / limits.samples_per_insert
    for_start = limits.min_size - stock.size if stock.sampled == 0 else 0
    return max(limits.batch_rows - stock.eligible, for_start, ceil(for_ratio - _ROUNDING), 0)


def _uses_allowed(limits: Limits, stock: Stock) -> float:
    """Uses that the ratio of samples to inserts still allows."""
    return max(limits.samples_per_insert * stock.inserted - stock.sampled, 0.0)
