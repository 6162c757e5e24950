"""What a worker takes of the node that it runs on, where there are several nodes to choose from."""

from __future__ import annotations

import msgspec


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """Of one worker."""

    cpus: float | None = None
    """None: as many as it has threads."""
    gpus: float = 0
    resources: dict[str, float] = {}
    """Custom resources by name."""
    labels: dict[str, str] = {}
    """What the node's labels must be: a value, `!value`, `in(a, b)` or `!in(a, b)`."""

    beside: str = ""
    """How the names of workers begin of which its node must have one; empty where it needs none."""

    group: str = ""
    """Workers of a run with the same group begin together or not at all, packed onto few nodes."""

    def amounts(self) -> dict[str, float]:
        """What is taken, by Ray's names."""
        return {"CPU": self.cpus or 0.0, "GPU": self.gpus, **self.resources}

    def fits(self, resources: dict[str, float], labels: dict[str, str]) -> bool:
        """Whether something with these resources and labels has all of it."""
        return self.matches(labels) and all(
            amount <= resources.get(name, 0.0) + 1e-6 for name, amount in self.amounts().items()
        )

    def matches(self, labels: dict[str, str]) -> bool:
        """Whether a node with these labels may have the worker."""
        return all(_matches(wanted, labels.get(name)) for name, wanted in self.labels.items())

    def __str__(self) -> str:
        """Such as `2 CPU, 1 GPU and label zone=a`."""
        labels = [f"label {name}={wanted}" for name, wanted in self.labels.items()]
        beside = [f"a node with {self.beside}"] if self.beside else []
        return join([*_named(self.amounts()), *labels, *beside]) or "nothing"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A worker of a run, before it is started."""

    name: str
    needs: Needs


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Workers that a run begins with, and how many more it takes when there is room."""

    workers: list[Wanted] = []
    spare: Needs | None = None
    """What each further worker takes; None: there are none."""
    most_spare: int = 0
    """How many further ones there may be."""
    autoscaler_s: float = 0.0
    """How long an autoscaler may take to add what is missing; 0: there is none."""


def amounts_in_words(amounts: dict[str, float]) -> str:
    """Such as `2 CPU, 1 GPU`."""
    return ", ".join(_named(amounts)) or "nothing"


def join(parts: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _named(amounts: dict[str, float]) -> list[str]:
    return [f"{amount:g} {name}" for name, amount in amounts.items() if amount]


def _matches(wanted: str, value: str | None) -> bool:
    """As Ray does it: a node without the label matches only what is negated."""
    positive = wanted.removeprefix("!")
    among = [each.strip() for each in positive.removeprefix("in").removeprefix("(").removesuffix(")").split(",")]
    return (value in (among if positive.endswith(")") else [positive])) != wanted.startswith("!")
