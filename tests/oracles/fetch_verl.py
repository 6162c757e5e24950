"""Fetch verl and Trinity-RFT, whose losses and advantages ours are compared with, into a folder of their own.

    python tests/oracles/fetch_verl.py [FOLDER]          # default: .venv-oracles (300 MB, a minute)
    LUDUS_ORACLES=.venv-oracles python -m pytest tests/oracles/test_verl_oracle.py tests/oracles/test_trinity_oracle.py

Both want GPUs, a running Ray and versions of vLLM that exclude each other; their arithmetic needs only what is listed
here, beside torch, transformers, datasets and peft of the development environment. Nothing of this is installed into
that environment, and the tests that use it run in a process of their own, because libraries change their ways when
they find ray or tensorboard.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".venv-oracles"
PACKAGES = (
    "verl==0.9.1",
    "trinity-rft==0.6.0",
    "aiosqlite==0.22.1",
    "antlr4-python3-runtime==4.9.3",
    "codetiming==1.4.0",
    "greenlet==3.5.6",
    "hydra-core==1.3.8",
    "importlib_metadata==10.2.0",
    "omegaconf==2.3.0",
    "orjson==3.13.0",
    "pyvers==0.2.3",
    "ray==2.60.0",
    "sqlalchemy==2.1.8",
    "tensorboard==2.21.0",
    "tensordict==0.15.3",
    "torchdata==0.11.0",
    "zipp==4.1.2",
)
STRAY = ("tests", "scripts")
"""Folders that Trinity's wheel leaves at the top, where they would hide ours."""


def main(folder: Path = FOLDER) -> None:
    """Fetch, unless this very list is there already."""
    stamp, wanted = folder / ".fetched", "\n".join(PACKAGES)
    if stamp.exists() and stamp.read_text() == wanted:
        return
    shutil.rmtree(folder, ignore_errors=True)
    print(f"fetching verl and Trinity-RFT into {folder} (300 MB, once)", file=sys.stderr)
    options = ["-qq", "--disable-pip-version-check", "--no-deps", "--target", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, *PACKAGES], check=True)
    for name in STRAY:
        shutil.rmtree(folder / name, ignore_errors=True)
    stamp.write_text(wanted)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
