"""Remove what a program left: folders as deep as it likes, with names and permissions as it likes.

Invariant: neither depth nor the length of a path is bounded, so nothing here recurses or joins names: each folder is
taken apart where it stands, and the folders in it are moved up beside it.
"""

from __future__ import annotations

import contextlib
import os


def remove_tree(folder: str) -> None:
    """Remove a folder and all below it, which nobody else is changing. What cannot be removed stays, silently."""
    with contextlib.suppress(OSError):
        os.chmod(folder, 0o700)
        root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            waiting = os.listdir(root)
            while waiting:
                waiting += _take_apart(root, waiting.pop())
        finally:
            os.close(root)
        os.rmdir(folder)


def _take_apart(root: int, name: str) -> list[str]:
    """Remove one entry of the root; the folders that were in it are in the root now, under these names."""
    if _unlink(name, root):
        return []
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=root)
    up: list[str] = []
    try:
        for entry in os.listdir(inner):
            if not _unlink(entry, inner):
                up.append(os.urandom(16).hex())  # a name that the program cannot have used
                os.rename(entry, up[-1], src_dir_fd=inner, dst_dir_fd=root)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=root)
    return up


def _unlink(name: str, folder: int) -> bool:
    """Remove what is no folder; a folder is opened for its owner instead."""
    try:
        os.unlink(name, dir_fd=folder)
        return True
    except IsADirectoryError:
        os.chmod(name, 0o700, dir_fd=folder)
        return False
