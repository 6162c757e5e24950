"""Compile `kernels.c` for this processor, once, and load it.

Invariant: a library that can be seen in the cache folder is whole (it is put there by one rename) and was made from
this source, by this compiler, for this processor: all of them are part of its name.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

logger = logging.getLogger(__name__)

SOURCE = Path(__file__).with_name("kernels.c")
# kernels.c says why no -ffast-math and no contraction; -fno-math-errno and -fno-trapping-math change nothing but speed.
FLAGS = ("-std=gnu11", "-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
LIBRARY = ("-shared", "-fPIC")
COMPILERS = ("cc", "gcc", "clang")


class CannotCompile(Exception):
    """There is no compiler, or it failed; the message says which."""


@cache
def load_kernels() -> ctypes.CDLL:
    """The compiled kernels, compiled now if need be.

    Raises:
        CannotCompile: with the reason.
    """
    compiler = _find_compiler()
    try:
        return ctypes.CDLL(str(_library(compiler, _cache_folder())))
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines() or ["nothing said"]
        raise CannotCompile(f"{compiler} failed on {SOURCE.name}: {said[0]}") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotCompile(f"{compiler} could not compile {SOURCE.name}: {error}") from error


def _find_compiler() -> str:
    chosen = os.environ.get("CC", "").strip()
    for name in (chosen,) if chosen else COMPILERS:
        if path := shutil.which(name):
            return path
    raise CannotCompile(f"there is no C compiler ({chosen or ', '.join(COMPILERS)})")


def _library(compiler: str, folder: Path) -> Path:
    library = folder / f"kernels-{_fingerprint(compiler)}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=folder) as room:
            made = Path(room) / library.name
            command = [compiler, *FLAGS, *LIBRARY, "-o", str(made), str(SOURCE), "-lm"]
            subprocess.run(command, check=True, capture_output=True, timeout=120)
            made.replace(library)
        logger.info("compiled %s to %s", SOURCE.name, library)
    return library


def _cache_folder() -> Path:
    """The user's cache, or where that cannot be written to, a folder for this process alone."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ludus"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError):
        folder = Path(tempfile.mkdtemp(prefix="ludus-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return folder


def _fingerprint(compiler: str) -> str:
    version = subprocess.run([compiler, "--version"], check=True, capture_output=True, timeout=60).stdout
    parts = [SOURCE.read_bytes(), " ".join(FLAGS).encode(), version, platform.machine().encode(), _processor()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _processor() -> bytes:
    """What this processor can do, where the system says it."""
    try:
        lines = Path("/proc/cpuinfo").read_bytes().splitlines()
    except OSError:
        return platform.processor().encode()
    return b"\n".join(sorted({line for line in lines if line.startswith((b"flags", b"Features", b"model name"))}))
