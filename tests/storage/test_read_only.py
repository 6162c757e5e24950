"""A directory that a run works in may become read-only for a while; the run waits, and nothing else does."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ludus.storage import read_only
from ludus.storage.read_only import leave, patiently, work_in


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(read_only, "_LOOK_S", 0.0)
    work_in(tmp_path)
    yield tmp_path
    leave(tmp_path)


class Refusing:
    """A change that is refused so many times."""

    def __init__(self, code: int, times: int) -> None:
        self.code, self.times = code, times

    def __call__(self) -> str:
        if self.times:
            self.times -= 1
            raise OSError(self.code, os.strerror(self.code))
        return "done"


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_a_change_waits_until_it_is_allowed_and_says_so_once(
    run: Path, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    assert patiently(run / "policies" / "main", Refusing(code, times=3)) == "done"
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        f"{run} cannot be written ({os.strerror(code)}); waiting for it, at most 600 s",
        f"{run} can be written again",
    ]


def test_the_wait_has_a_bound(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_only, "MOST_S", 0.0)
    with pytest.raises(OSError, match="Read-only"):
        patiently(run / "x", Refusing(errno.EROFS, times=1_000_000))


def test_nothing_waits_outside_of_a_directory_at_work_or_for_another_reason(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for path, code in ((Path(f"{run}2") / "x", errno.EROFS), (run.parent / "x", errno.EACCES), (run / "x", errno.EIO)):
        with pytest.raises(OSError, match=os.strerror(code)):
            patiently(path, Refusing(code, times=1))
    leave(run)
    with pytest.raises(OSError, match="Permission"):
        patiently(run / "x", Refusing(errno.EACCES, times=1))
    assert not caplog.records
