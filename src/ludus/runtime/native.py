"""C sources of this package, compiled for this processor at first use and loaded.

Invariant: a library that can be seen in the cache folder is whole (it is put there by one rename) and was made from
its source, by this compiler with these flags, for this processor: all of them are part of its name. Whoever uses one
has another way to do the same, for machines without a compiler.
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

log = logging.getLogger(__name__)

COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=gnu11", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
"""Not -ffast-math: what is compiled gives the same bits wherever the processor can do the same."""
_COMPILE_S = 120.0


class CannotCompile(Exception):
    """There is no compiler, or it failed; the message says which."""


@cache
def load_library(source: Path, *flags: str) -> ctypes.CDLL:
    """The library of one C file, compiled now if need be, with more `flags` than the usual.

    Raises:
        CannotCompile: with the reason.
    """
    compiler = _find_compiler()
    try:
        return ctypes.CDLL(str(_library(source, compiler, (*FLAGS, *flags))))
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines() or ["nothing said"]
        raise CannotCompile(f"{compiler} failed on {source.name}: {said[0]}") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotCompile(f"{compiler} could not compile {source.name}: {error}") from error


def _find_compiler() -> str:
    chosen = os.environ.get("CC", "").strip()
    for name in (chosen,) if chosen else COMPILERS:
        if path := shutil.which(name):
            return path
    raise CannotCompile(f"there is no C compiler ({chosen or ', '.join(COMPILERS)})")


def _library(source: Path, compiler: str, flags: tuple[str, ...]) -> Path:
    folder = _cache_folder()
    library = folder / f"{source.stem}-{_fingerprint(source, compiler, flags)}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=folder) as room:
            made = Path(room) / library.name
            command = [compiler, *flags, "-o", str(made), str(source), "-lm"]
            subprocess.run(command, check=True, capture_output=True, timeout=_COMPILE_S)
            made.replace(library)
        log.info("compiled %s to %s", source.name, library)
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


def _fingerprint(source: Path, compiler: str, flags: tuple[str, ...]) -> str:
    version = subprocess.run([compiler, "--version"], check=True, capture_output=True, timeout=_COMPILE_S).stdout
    parts = [source.read_bytes(), " ".join(flags).encode(), version, platform.machine().encode(), _processor()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _processor() -> bytes:
    """What this processor can do, where the system says it."""
    try:
        lines = Path("/proc/cpuinfo").read_bytes().splitlines()
    except OSError:
        return platform.processor().encode()
    return b"\n".join(sorted({line for line in lines if line.startswith((b"flags", b"Features", b"model name"))}))
