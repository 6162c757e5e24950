"""C sources: compiled once, loaded, and a clear reason where that cannot be."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ludus.runtime import native


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    native.load_library.cache_clear()
    path = tmp_path / "sums.c"
    path.write_text("int twice(int x) { return 2 * x; }\n")
    return path


def test_a_source_is_compiled_once_and_loaded(source: Path, tmp_path: Path) -> None:
    if not any(map(native.shutil.which, native.COMPILERS)):
        pytest.skip("there is no C compiler")
    assert native.load_library(source).twice(21) == 42
    made = list((tmp_path / "cache" / "ludus").iterdir())
    assert [path.suffix for path in made] == [".so"]
    native.load_library.cache_clear()
    assert native.load_library(source).twice(4) == 8
    assert list((tmp_path / "cache" / "ludus").iterdir()) == made
    native.load_library.cache_clear()
    source.write_text("int twice(int x) { return x + x + 1; }\n")
    assert native.load_library(source).twice(4) == 9


def test_another_compiler_and_other_flags_make_other_libraries(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    other = tmp_path / "other-cc"
    other.write_text('#!/bin/sh\n[ "$1" = --version ] && echo other 1.0 || exec cc "$@"\n')
    other.chmod(0o755)
    with caplog.at_level(logging.INFO):
        native.load_library(source)
        native.load_library(source, "-ffp-contract=off")
        monkeypatch.setenv("CC", str(other))
        native.load_library.cache_clear()
        native.load_library(source)
    assert len(list((tmp_path / "cache" / "ludus").iterdir())) == 3
    assert caplog.text.count("compiled sums.c") == 3


def test_where_the_cache_cannot_be_written_a_library_is_made_for_this_process(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert native.load_library(source).twice(3) == 6


def test_without_a_compiler_the_reason_is_said(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(native.CannotCompile, match=r"no C compiler \(no-such-compiler\)"):
        native.load_library(source)


def test_a_source_that_does_not_compile_leaves_nothing_behind(source: Path, tmp_path: Path) -> None:
    source.write_text("this is not C\n")
    with pytest.raises(native.CannotCompile, match=r"failed on sums\.c: .*error"):
        native.load_library(source)
    folder = tmp_path / "cache" / "ludus"
    assert not folder.exists() or not list(folder.iterdir())
