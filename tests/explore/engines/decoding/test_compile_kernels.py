"""Kernels are compiled once for a source, a compiler and a processor; where that fails, the reason is said."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ludus.explore.engines.decoding.compile_kernels import CannotCompile, load_kernels


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is compiled yet, and nothing that is stays."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    load_kernels.cache_clear()
    yield
    load_kernels.cache_clear()


def libraries(tmp_path: Path) -> list[str]:
    return sorted(os.listdir(tmp_path / "cache" / "ludus"))


def test_the_second_process_finds_what_the_first_compiled(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        load_kernels()
        load_kernels.cache_clear()
        load_kernels()
    (library,) = libraries(tmp_path)
    assert library.startswith("kernels-")
    assert library.endswith(".so")
    assert caplog.text.count("compiled kernels.c") == 1


def test_another_compiler_makes_another_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_kernels()
    other = tmp_path / "other-cc"
    other.write_text('#!/bin/sh\n[ "$1" = --version ] && echo other 1.0 || exec cc "$@"\n')
    other.chmod(0o755)
    monkeypatch.setenv("CC", str(other))
    load_kernels.cache_clear()
    load_kernels()
    assert len(libraries(tmp_path)) == 2


def test_a_compiler_that_fails_leaves_nothing_behind_and_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken-cc"
    broken.write_text('#!/bin/sh\n[ "$1" = --version ] && exit 0\necho "no space in the inn" >&2\nexit 1\n')
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    with pytest.raises(CannotCompile, match=r"broken-cc failed on kernels\.c: no space in the inn"):
        load_kernels()
    assert libraries(tmp_path) == []


def test_no_compiler_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotCompile, match=r"there is no C compiler \(cc, gcc, clang\)"):
        load_kernels()


def test_where_the_cache_cannot_be_written_they_are_compiled_for_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert load_kernels().ludus_norm
