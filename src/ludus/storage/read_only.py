"""Waiting while the directory of a live run cannot be written: a backup, a snapshot or a remount made it read-only.

Invariant: only what lies below a directory that this process works in waits, and only for so long; everything else
fails at once, as does a run that begins where it may not write.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

MOST_S = 600.0
"""As long as for another program's lock on the catalog."""
_LOOK_S = 0.1
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
_at_work: set[str] = set()

log = logging.getLogger(__name__)


def work_in(directory: Path) -> None:
    """From now on, changes below this directory wait while it is read-only. Call it when it has been written to."""
    _at_work.add(os.path.abspath(directory))


def leave(directory: Path) -> None:
    """The run is over: nothing waits any more."""
    _at_work.discard(os.path.abspath(directory))


def patiently(path: Path, change: Callable[[], T]) -> T:
    """Make a change to the file system, as soon as it is allowed.

    Raises:
        OSError: it failed for another reason, or it was not allowed for `MOST_S`.
    """
    end, is_told = time.monotonic() + MOST_S, False
    while True:
        try:
            done = change()
        except OSError as error:
            if error.errno not in _READ_ONLY or time.monotonic() > end or (root := _root(path)) is None:
                raise
            if not is_told:
                log.warning("%s cannot be written (%s); waiting for it, at most %g s", root, error.strerror, MOST_S)
                is_told = True
            time.sleep(_LOOK_S)
            continue
        if is_told:
            log.warning("%s can be written again", _root(path))
        return done


def _root(path: Path) -> str | None:
    """The directory at work that a path lies in."""
    full = os.path.abspath(path)
    return next((root for root in _at_work if full.startswith(root + os.sep)), None)
