"""A folder that a fixture makes for all test processes is made once, and made again when its maker failed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

MakeOnce = Callable[[str, Callable[[Path], None]], Path]


def test_the_second_to_come_waits_for_the_first_and_finds_its_work(make_once: MakeOnce) -> None:
    made: list[str] = []
    begun, may_end = threading.Event(), threading.Event()

    def slowly(folder: Path) -> None:
        begun.set()
        assert may_end.wait(30)
        (folder / "work").write_text("whole")
        made.append("first")

    first = threading.Thread(target=make_once, args=("shared-slowly", slowly))
    first.start()
    assert begun.wait(30)
    found: list[str] = []
    second = threading.Thread(
        target=lambda: found.append((make_once("shared-slowly", lambda _: made.append("second")) / "work").read_text())
    )
    second.start()
    may_end.set()
    first.join(30)
    second.join(30)

    assert (made, found) == (["first"], ["whole"])


def test_what_was_left_half_made_is_made_again(make_once: MakeOnce) -> None:
    def fails(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        make_once("shared-half", fails)
    folder = make_once("shared-half", lambda folder: (folder / "whole").touch())

    assert [path.name for path in folder.iterdir()] == ["whole"]
