"""Thread counts of a process, set by environment before any native library is loaded.

Two spinning pools on a busy core are an order of magnitude slower than one thread, so ludus always decides.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping

VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def limit_threads(threads: int, environment: MutableMapping[str, str]) -> None:
    """Make native libraries that read this environment use `threads` compute threads."""
    for variable in VARIABLES:
        environment[variable] = str(threads)
    flags = [
        flag for flag in environment.get("XLA_FLAGS", "").split() if "eigen" not in flag and "intra_op" not in flag
    ]
    flags.append(f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'}")
    flags.append(f"intra_op_parallelism_threads={threads}")
    environment["XLA_FLAGS"] = " ".join(flags)
    # The size of XLA's own thread pool: without it two pool threads take turns even when one computes.
    environment["PJRT_NPROC"] = str(threads)
    environment.setdefault("JAX_PLATFORMS", "cpu" if not _has_accelerator() else "")
    environment["TF_CPP_MIN_LOG_LEVEL"] = "2"


def _has_accelerator() -> bool:
    return any(os.path.exists(path) for path in ("/dev/nvidia0", "/dev/kfd", "/dev/accel0"))
