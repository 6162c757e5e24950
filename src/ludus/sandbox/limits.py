"""What a program in the sandbox may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one program. All of them hold whatever the program does."""

    cpu_s: int = 5
    """Processor time of each of its processes."""
    wall_s: float = 15.0
    """From start to end, for all of it."""
    memory_mb: int = 512
    """Address space of each process, and resident memory of all of them together."""
    disk_mb: int = 16
    """All that it writes."""
    processes: int = 8
    """At the same time, threads too. Where the machine has no namespaces, no second process at all."""
    open_files: int = 64
    output_kb: int = 256
    """Kept of what it prints, to each of the two streams; the rest is thrown away."""
