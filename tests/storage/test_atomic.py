"""Atomic files and directories."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ludus.errors import CorruptRecord, StorageError
from ludus.storage import atomic
from ludus.storage.atomic import (
    discard_tree,
    ensure_directory,
    json_bytes,
    publish_directory,
    read_json,
    sha256_file,
    sweep_leftovers,
    temporary_name,
    write_bytes,
    write_json,
    write_pieces,
    write_text,
)
from ludus.storage.filesystem import FileSystem


class FailsAt(FileSystem):
    """A disk on which one kind of call fails."""

    def __init__(self, call: str) -> None:
        self._call = call

    def __getattribute__(self, name: str) -> object:
        if not name.startswith("_") and name == object.__getattribute__(self, "_call"):
            raise OSError(5, f"{name} failed")
        return object.__getattribute__(self, name)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_written_file_has_the_bytes_and_no_temporary_is_left(tmp_path: Path) -> None:
    write_bytes(tmp_path / "a", b"one")
    write_pieces(tmp_path / "a", [b"t", b"", memoryview(b"wo")])
    write_text(tmp_path / "b", "µ")
    assert (tmp_path / "a").read_bytes() == b"two"
    assert (tmp_path / "b").read_bytes() == "µ".encode()
    assert names(tmp_path) == ["a", "b"]


@pytest.mark.parametrize("call", ["write_file", "rename"])
def test_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, call: str) -> None:
    write_bytes(tmp_path / "a", b"old")
    with pytest.raises(OSError, match="failed"):
        write_bytes(tmp_path / "a", b"new", fs=FailsAt(call))
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_json_survives_and_nan_is_refused(tmp_path: Path) -> None:
    value = {"big": 2**127, "list": [1, 2.5, None, "x"]}
    write_json(tmp_path / "a.json", value)
    assert read_json(tmp_path / "a.json") == value
    with pytest.raises(StorageError, match="cannot be written as JSON"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert read_json(tmp_path / "a.json") == value


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_file_that_is_not_json_is_a_corrupt_record(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "a.json").write_bytes(text)
    with pytest.raises(CorruptRecord):
        read_json(tmp_path / "a.json")


def test_missing_or_oversized_json_is_a_corrupt_record(tmp_path: Path) -> None:
    with pytest.raises(CorruptRecord):
        read_json(tmp_path / "a.json")
    (tmp_path / "a.json").write_text(json.dumps("x" * 100))
    with pytest.raises(CorruptRecord, match="larger than 50"):
        read_json(tmp_path / "a.json", most_bytes=50)


def staged(directory: Path, content: str) -> Path:
    staging = temporary_name(directory)
    staging.mkdir()
    (staging / "weights").write_text(content)
    return staging


def test_published_directory_appears_whole_and_again_is_a_no_op(tmp_path: Path) -> None:
    final = tmp_path / "main" / "00000001"
    publish_directory(staged(tmp_path, "w"), final)
    publish_directory(staged(tmp_path, "w"), final)
    assert (final / "weights").read_text() == "w"
    assert names(tmp_path) == ["main"]


def test_publishing_other_contents_under_a_taken_name_is_refused(tmp_path: Path) -> None:
    final = tmp_path / "00000001"
    publish_directory(staged(tmp_path, "w"), final)
    with pytest.raises(StorageError, match="never overwritten"):
        publish_directory(staged(tmp_path, "other"), final)
    assert (final / "weights").read_text() == "w"


def test_directory_with_a_link_in_it_is_not_published(tmp_path: Path) -> None:
    staging = staged(tmp_path, "w")
    (staging / "link").symlink_to("/etc/passwd")
    with pytest.raises(StorageError, match="plain files"):
        publish_directory(staging, tmp_path / "final")


def test_sweep_removes_what_dead_processes_left_and_nothing_else(tmp_path: Path) -> None:
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    pid = int(dead.stdout)
    doomed = [tmp_path / f".tmp-{pid}-0123456789", tmp_path / "sub" / f".stage-12-{pid}-012345678900"]
    doomed[1].mkdir(parents=True)
    (doomed[1] / "weights").write_text("half")
    doomed[0].write_text("half")
    same_pid = tmp_path / f".tmp-{os.getpid()}-ffffffff0000"
    same_pid.write_text("of an earlier process with our number")
    mine, parent, foreign = temporary_name(tmp_path), tmp_path / f".tmp-{os.getppid()}-0123456789", tmp_path / ".tmp-x"
    for path in (mine, parent, foreign):
        path.write_text("keep")
    assert sorted(sweep_leftovers(tmp_path)) == sorted([*doomed, same_pid])
    assert names(tmp_path) == sorted([mine.name, parent.name, foreign.name, "sub"])
    assert names(tmp_path / "sub") == []


def test_temporary_names_never_repeat(tmp_path: Path) -> None:
    assert len({temporary_name(tmp_path) for _ in range(1000)}) == 1000
    assert all(atomic._TEMPORARY.fullmatch(temporary_name(tmp_path, "stage-7").name) for _ in range(3))


def test_discarded_tree_is_gone_and_hash_is_sha256(tmp_path: Path) -> None:
    ensure_directory(tmp_path / "a" / "b")
    (tmp_path / "a" / "file").write_bytes(b"abc")
    assert sha256_file(tmp_path / "a" / "file").startswith("ba7816bf")
    discard_tree(tmp_path / "a")
    assert names(tmp_path) == []


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=20,
    )
)
def test_json_is_indented_as_the_json_module_does_it(value: object) -> None:
    assert json_bytes(Path("x.json"), value) == (json.dumps(value, indent=1) + "\n").encode()
