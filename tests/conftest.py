"""What holds for every test: the CPU, one thread for each library, no network, no deadline on a busy machine.

Set here, before any test module is imported, because native libraries read it once when they are loaded.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

for _name, _value in {
    "JAX_PLATFORMS": "cpu",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "WANDB_MODE": "offline",
    "MPLBACKEND": "agg",
}.items():
    os.environ.setdefault(_name, _value)

settings.register_profile("ordinary", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("nightly", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ordinary"))
