"""Sums as a taskset, for offline use: `ludus/arithmetic?digits=2&ops=+-&count=5000&split=train&seed=0`.

Invariant: whether a problem is held out (`split=test`) follows from the problem alone, and a + b goes where b + a does;
so no problem of any training set is ever in a test set, whatever their seeds and counts. All rows of a set differ.

    parameter  default  meaning
    digits     2        of each number, at most (1 to 9)
    ops        +        which of + - *; differences are never negative
    count      5000     rows, or as many as there are
    split      train    train or test; a fifth of all problems is held out
    seed       0        which of the problems, in which order
    worked     0        1: the solution shows the steps before the answer
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

from ludus.errors import ConfigError
from ludus.records import derive_seed
from ludus.tasks.rows import Row

NAME = "ludus/arithmetic"
MOST_ROWS = 1_000_000
_HELD_OUT = 5
_MOST_LISTED = 4_000_000
"""Problems of which a random order is drawn as a whole; of more, problems are drawn one by one."""
_NUMBERS = {"digits": (1, 9), "count": (1, MOST_ROWS), "seed": (0, 2**63 - 1), "worked": (0, 1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Which problems a set has."""

    digits: int = 2
    ops: str = "+"
    count: int = 5000
    split: str = "train"
    seed: int = 0
    worked: int = 0


def read_arithmetic(path: str, split: str | None = None) -> Iterator[Row]:
    """The rows that a path such as `ludus/arithmetic?digits=3` stands for."""
    sums = parse_path(path, split)
    for number, (a, op, b) in enumerate(_problems(sums), start=1):
        yield Row(line=number, fields=_fields(a, op, b, worked=bool(sums.worked)))


def parse_path(path: str, split: str | None = None) -> Sums:
    """Read the parameters behind the question mark. Raises ConfigError if one of them is unknown or out of bounds."""
    given: dict[str, Any] = {}
    query = path.partition("?")[2]
    for entry in query.split("&") if query else ():
        name, _, value = entry.partition("=")
        if name in given:
            raise ConfigError(f"{path}: {name} is given twice")
        given[name] = _value(path, name, value)
    if split is not None and given.setdefault("split", split) != split:
        raise ConfigError(f"{path}: the path says split={given['split']}, but split: {split} was asked for")
    if given.get("split", "train") not in ("train", "test"):
        raise ConfigError(f"{path}: expected split train or test, got {given['split']!r}")
    return Sums(**given)


def _value(path: str, name: str, value: str) -> str | int:
    known = tuple(Sums.__dataclass_fields__)
    if name not in known:
        near = get_close_matches(name, known, n=1) or known
        raise ConfigError(f"{path}: unknown parameter {name!r}; did you mean {' or '.join(near)}?")
    if name == "ops" and (not value or set(value) - set("+-*") or len(set(value)) < len(value)):
        raise ConfigError(f"{path}: expected ops out of + - *, each once, got {value!r}")
    if name not in _NUMBERS:
        return value
    low, high = _NUMBERS[name]
    if not value.isascii() or not value.isdigit() or len(value) > 19 or not low <= int(value) <= high:
        raise ConfigError(f"{path}: expected {name} to be a whole number from {low} to {high}, got {value!r}")
    return int(value)


def is_held_out(a: int, op: str, b: int) -> bool:
    """Whether a problem is for testing only."""
    first, second = (a, b) if op == "-" else sorted((a, b))
    return derive_seed(0, NAME, first, op, second) % _HELD_OUT == 0


def _problems(sums: Sums) -> Iterator[tuple[int, str, int]]:
    rng = np.random.RandomState(derive_seed(sums.seed, NAME, sums.split) % 2**32)
    numbers = 10**sums.digits
    space = numbers * numbers * len(sums.ops)
    if space <= _MOST_LISTED:
        codes: Iterator[int] = iter(rng.permutation(space).tolist())
    else:
        codes = _draws(rng, space, tries=20 * sums.count + 10_000)
    seen: set[int] = set()
    for code in codes:
        a, b, op = code // numbers % numbers, code % numbers, sums.ops[code // numbers**2]
        fits = (op != "-" or a >= b) and is_held_out(a, op, b) == (sums.split == "test")
        if fits and code not in seen:
            seen.add(code)
            yield a, op, b
        if len(seen) == sums.count:
            return


def _draws(rng: np.random.RandomState, space: int, *, tries: int) -> Iterator[int]:
    for _ in range(0, tries, 1024):
        # Two draws of 32 bits: the legacy generator, whose stream never changes, has no wider one that is as old.
        high, low = rng.randint(0, 2**31, 1024, dtype=np.int64), rng.randint(0, 2**31, 1024, dtype=np.int64)
        yield from (((int(h) << 31) | int(w)) % space for h, w in zip(high, low, strict=True))


def _fields(a: int, op: str, b: int, *, worked: bool) -> dict[str, Any]:
    answer = {"+": a + b, "-": a - b, "*": a * b}[op]
    steps = _steps(a, op, b) if worked else []
    return {
        "prompt": f"{a} {op} {b} =",
        "answer": str(answer),
        "solution": ", ".join([*steps, str(answer)]),
        "difficulty": len(str(a)) + len(str(b)) + _carries(a, op, b),
    }


def _steps(a: int, op: str, b: int) -> list[str]:
    """Column by column from the right, with what is carried; products by the digits of b."""
    if op == "*":
        places = enumerate(reversed(str(b)))
        return [f"{a}*{int(digit) * 10**place}={a * int(digit) * 10**place}" for place, digit in places]
    return [f"{x}{op}{y}{f'{op}1' if carried else ''}={total}" for x, y, carried, total in _columns(a, op, b)]


def _carries(a: int, op: str, b: int) -> int:
    """How often something is carried or borrowed; for products, how many digits are multiplied."""
    if op == "*":
        return len(str(a)) * len(str(b))
    return sum(not 0 <= total <= 9 for _, _, _, total in _columns(a, op, b))


def _columns(a: int, op: str, b: int) -> Iterator[tuple[int, int, int, int]]:
    """Both digits, what was carried to them, and what they come to; from the right."""
    carried = 0
    for place in range(max(len(str(a)), len(str(b)))):
        x, y = a // 10**place % 10, b // 10**place % 10
        total = x + y + carried if op == "+" else x - y - carried
        yield x, y, carried, total
        carried = int(not 0 <= total <= 9)
