"""C sources: compiled once, loaded, and a clear reason where that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from ludus.runtime import native


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
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


def test_without_a_compiler_the_reason_is_said(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(native.CannotCompile, match=r"no C compiler \(no-such-compiler\)"):
        native.load_library(source)


def test_a_source_that_does_not_compile_leaves_nothing_behind(source: Path, tmp_path: Path) -> None:
    source.write_text("this is not C\n")
    with pytest.raises(native.CannotCompile):
        native.load_library(source)
    folder = tmp_path / "cache" / "ludus"
    assert not folder.exists() or not list(folder.iterdir())
