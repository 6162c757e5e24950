"""Archives that are as they should be. The others are in tests/faults/test_hostile_archives.py."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from ludus.storage.archives import Member, read_archive

FILES = {"a.txt": b"one", "deep/" + "x" * 150 + "/b.bin": bytes(range(256)) * 300, "µ.txt": b"", "c": b"three" * 1000}
MEMBERS = [Member(name=name, content=content) for name, content in FILES.items()]


def make_tar(path: Path, mode: str, kind: int) -> None:
    with tarfile.open(path, mode, format=kind) as archive:
        folder = tarfile.TarInfo("deep")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in FILES.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


@pytest.mark.parametrize("mode", ["w", "w:gz"])
@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_tar_of_every_common_format_is_read_whole(tmp_path: Path, mode: str, kind: int) -> None:
    make_tar(tmp_path / "x", mode, kind)
    assert list(read_archive(tmp_path / "x")) == MEMBERS


@pytest.mark.parametrize("packing", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zip_is_read_whole(tmp_path: Path, packing: int) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", packing) as archive:
        archive.mkdir("deep")
        for name, content in FILES.items():
            archive.writestr(name, content)
    assert list(read_archive(tmp_path / "x.zip")) == MEMBERS


def test_single_gzip_file_is_one_member_also_when_concatenated_and_padded(tmp_path: Path) -> None:
    packed = gzip.compress(b"abc" * 10_000) + gzip.compress(b"def") + bytes(100)
    (tmp_path / "chunk.gz").write_bytes(packed)
    assert list(read_archive(tmp_path / "chunk.gz")) == [Member(name="chunk", content=b"abc" * 10_000 + b"def")]
