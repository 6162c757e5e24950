"""Thread counts of a process, set by environment before any native library is loaded.

Two spinning pools on a busy core are an order of magnitude slower than one thread, so ludus always decides.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from importlib.util import find_spec

VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
_LONGEST_WAIT_S = 30 * 24 * 3600


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def limit_threads(threads: int, environment: MutableMapping[str, str], *, devices: int = 1) -> None:
    """Make native libraries that read this environment use `threads` compute threads.

    On a CPU, JAX shares them out among so many devices.
    """
    for variable in VARIABLES:
        environment[variable] = str(threads)
    own = ("eigen", "intra_op", "xla_cpu_collective")
    flags = [flag for flag in environment.get("XLA_FLAGS", "").split() if not any(name in flag for name in own)]
    each = max(1, threads // devices)
    flags.append(f"--xla_cpu_multi_thread_eigen={'true' if each > 1 else 'false'}")
    flags.append(f"intra_op_parallelism_threads={each}")
    if devices > 1:
        # XLA ends the process when devices wait for each other longer than this, which a stopped process may do.
        flags.append(f"--xla_cpu_collective_call_terminate_timeout_seconds={_LONGEST_WAIT_S}")
        flags.append(f"--xla_cpu_collective_call_warn_stuck_timeout_seconds={_LONGEST_WAIT_S}")
    environment["XLA_FLAGS"] = " ".join(flags)
    environment["JAX_NUM_CPU_DEVICES"] = str(devices)
    # The size of XLA's own thread pool: without it two pool threads take turns even when one computes.
    environment["PJRT_NPROC"] = str(max(threads, devices))
    environment.setdefault("JAX_PLATFORMS", "cpu" if not _has_accelerator() else "")
    environment["TF_CPP_MIN_LOG_LEVEL"] = "2"


def compute_in_one_thread() -> None:
    """Let this process compute as an explorer does, in one thread; call it before native libraries are loaded."""
    os.environ.update(dict.fromkeys(VARIABLES, "1"))
    if find_spec("torch") is not None:
        import torch

        torch.set_num_threads(1)


def _has_accelerator() -> bool:
    return any(os.path.exists(path) for path in ("/dev/nvidia0", "/dev/kfd", "/dev/accel0"))
