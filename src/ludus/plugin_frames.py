"""Where in a user's own code an error came from: the file, line and function of a plugin, and no other frame.

`ludus.plugins` says which files and packages are the user's. A message shows one place; the whole traceback goes to the
log, once for each place.
"""

from __future__ import annotations

import inspect
import logging
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

log = logging.getLogger(__name__)

MOST_PLACES = 100
"""Places whose traceback a process logs: a game that fails in every episode must not fill the disk."""

_LIBRARIES = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
_OURS = str(Path(__file__).parent)
_folders: set[str] = set()
_packages: set[str] = set()
_logged: set[tuple[str, str]] = set()


def note_file(path: Path) -> None:
    """This file is a plugin; modules beside it that it imports are the user's, too."""
    _folders.add(str(path.parent))


def note_package(name: str) -> None:
    """An entry point came from this package."""
    _packages.add(name)


def plugin_trace(error: BaseException) -> str:
    """The traceback of the user's own code alone, as Python prints it; the whole where none of that is in it."""
    for one in _chain(error):
        frames = [pair for pair in traceback.walk_tb(one.__traceback__) if _is_users(pair[0])]
        if frames:
            lines = traceback.StackSummary.extract(iter(frames)).format()
            return "".join([*lines, *traceback.format_exception_only(one)])
    return "".join(traceback.format_exception(error))


def plugin_place(error: BaseException) -> str:
    """`my_game.py:41, in act`: the innermost frame of the user's own code; empty where there is none."""
    for one in _chain(error):
        frames = [pair for pair in traceback.walk_tb(one.__traceback__) if _is_users(pair[0])]
        if frames:
            frame, line = frames[-1]
            return f"{short_path(frame.f_code.co_filename)}:{line}, in {frame.f_code.co_name}"
    return ""


def defined_at(function: Callable[..., object]) -> str:
    """`my_game.py:38, in returns`: where the user's own code defines a function; empty where it does not."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or not _is_users_file(code.co_filename, getattr(function, "__module__", "")):
        return ""
    return f"{short_path(code.co_filename)}:{code.co_firstlineno}, in {code.co_name}"


def in_words(error: BaseException) -> str:
    """An exception in one line: its type, what it says, and where in the user's own code it was raised."""
    said = " ".join(str(error).split())
    name, place = type(error).__name__, plugin_place(error)
    return f"{name}{': ' + said if said else ''}{f' ({place})' if place else ''}"


def log_once(error: BaseException) -> None:
    """Log the whole traceback of what a user's own code raised, the first time that it is raised there."""
    place = (plugin_place(error), type(error).__name__)
    if place[0] and place not in _logged and len(_logged) < MOST_PLACES:
        _logged.add(place)
        log.info("%s at %s", place[1], place[0], exc_info=error)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, then what it was raised from."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or one.__context__


def _is_users(frame: FrameType) -> bool:
    return _is_users_file(frame.f_code.co_filename, str(frame.f_globals.get("__name__", "")))


def _is_users_file(file: str, module: str) -> bool:
    if file.startswith((_OURS, "<frozen")):
        return False
    if module.partition(".")[0] in _packages:
        return True
    return not file.startswith(_LIBRARIES) and any(file.startswith(folder + "/") for folder in _folders)


def short_path(file: str) -> str:
    """A path as people write it: relative where it is below the working directory."""
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else file
