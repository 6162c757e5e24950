"""What a process does with memory that tensors give back."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's `mallopt`."""
_KEPT_BYTES = 1 << 30


@cache
def keep_freed_memory() -> None:
    """Keep memory for the next tensor instead of giving it back to the system, where that can be said (glibc).

    An update allocates the same large tensors over and over; given back, each costs page faults anew: a twentieth of
    the time of a small model's update. The process stays as large as its largest update made it.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _KEPT_BYTES)
