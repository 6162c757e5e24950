"""F20, the Python side: archives that would escape, explode or lie. Good members before the fault are kept."""

from __future__ import annotations

import contextlib
import gzip
import io
import re
import resource
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ludus.errors import CorruptRecord
from ludus.storage.archives import Limits, read_archive

LIMITS = Limits(entries=1000, member_bytes=2_000_000, total_bytes=4_000_000, ratio=100)


def entry(name: str, content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    made = tarfile.TarInfo(name)
    made.size = len(content)
    for key, value in fields.items():
        setattr(made, key, value)
    return made, content


def tar(*entries: tuple[tarfile.TarInfo, bytes], kind: int = tarfile.GNU_FORMAT) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=kind) as archive:
        for made, content in (entry("good", b"content"), *entries):
            archive.addfile(made, io.BytesIO(content))
    return target.getvalue()


def patched(archive: bytes, offset: int, field: bytes, *, fix_checksum: bool = True) -> bytes:
    """Change a field of the second header."""
    changed = bytearray(archive)
    changed[1024 + offset : 1024 + offset + len(field)] = field
    if fix_checksum:
        header = changed[1024:1536]
        header[148:156] = b" " * 8
        changed[1024 + 148 : 1024 + 156] = b"%06o\0 " % sum(header)
    return bytes(changed)


def zipped(*entries: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (("good", b"content"), *entries):
            archive.writestr(name, content)
    return target.getvalue()


def unix_zip_entry(name: str, mode: int) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)
    made.external_attr = mode << 16
    return made


def lying_zip_size() -> bytes:
    archive = bytearray(zipped(("bad", b"x" * 100)))
    at = archive.rfind(b"PK\x01\x02")
    archive[at + 24 : at + 28] = (50).to_bytes(4, "little")
    return bytes(archive)


def zip_with_huge_directory() -> bytes:
    archive = bytearray(zipped())
    at = archive.rfind(b"PK\x05\x06")
    archive[at + 12 : at + 16] = (2**31).to_bytes(4, "little")
    return bytes(archive)


ONE = tar(entry("bad", b"x" * 600))
KEEPS_THE_GOOD = {
    "parent": tar(entry("../x", b"x")),
    "parent inside": tar(entry("a/../../x", b"x")),
    "absolute": tar(entry("/etc/x", b"x")),
    "windows drive": tar(entry("C:\\x", b"x")),
    "windows parent": tar(entry("..\\x", b"x")),
    "symbolic link": tar(entry("x", type=tarfile.SYMTYPE, linkname="/etc/passwd")),
    "hard link": tar(entry("x", type=tarfile.LNKTYPE, linkname="good")),
    "character device": tar(entry("x", type=tarfile.CHRTYPE)),
    "fifo": tar(entry("x", type=tarfile.FIFOTYPE)),
    "long name to a parent": tar(entry("../" + "x" * 200, b"x")),
    "pax path to a parent": tar(entry("../" + "x" * 200, b"x"), kind=tarfile.PAX_FORMAT),
    "eight gibibytes": patched(ONE, 124, b"77777777777\0"),
    "base 256": patched(ONE, 124, b"\x80" + (8 << 30).to_bytes(11, "big")),
    "negative": patched(ONE, 124, b"\xff" * 12),
    "size that is no number": patched(ONE, 124, b"12x45678901\0"),
    "bad checksum": patched(ONE, 0, b"BAD", fix_checksum=False),
    "truncated content": ONE[: 1024 + 512 + 100],
    "truncated header": ONE[: 1024 + 100],
    "no end": ONE[: 1024 + 512 + 1024],
    "name not UTF-8": patched(ONE, 0, b"\xff\xfe"),
    "pax junk": tar(entry("x", b"x", pax_headers={"junk": "\n" * 10}), kind=tarfile.PAX_FORMAT).replace(
        b"junk=", b"junk "
    ),
    "pax size": tar(entry("x", b"x", pax_headers={"size": "9"}), kind=tarfile.PAX_FORMAT),
    "member beyond the limit": tar(entry("big", bytes(2_000_001))),
    "too many bytes": tar(*(entry(f"f{i}", bytes(1_500_000)) for i in range(4))),
    "too many entries": tar(*(entry(f"f{i}") for i in range(1000))),
    "zip parent": zipped(("../x", b"x")),
    "zip absolute": zipped(("/x", b"x")),
    "zip link": zipped((unix_zip_entry("x", 0o120777), b"/etc/passwd")),
    "zip device": zipped((unix_zip_entry("x", 0o020666), b"")),
    "zip bomb": zipped(("x", bytes(1_900_000))),
    "zip beyond the limit": zipped(("x", bytes(2_000_001))),
    "zip lying size": lying_zip_size(),
}
NOTHING_TO_KEEP = {
    "nothing": b"",
    "garbage": b"garbage" * 1000,
    "gzip bomb": gzip.compress(bytes(50_000_000)),
    "gzip bomb of bombs": gzip.compress(gzip.compress(bytes(10_000_000)) * 2000),
    "gzip truncated": gzip.compress(bytes(range(256)) * 10)[:-20],
    "gzip bad checksum": gzip.compress(b"abc")[:-8] + bytes(8),
    "gzip then garbage": gzip.compress(b"abc") + b"garbage",
    "zip without directory": zipped()[:40],
    "zip with a huge directory": zip_with_huge_directory(),
    "zip with too many entries": zipped(*((f"f{i}", b"") for i in range(1000))),
    "zip64": zipped()[:-22] + b"PK\x06\x07" + bytes(16) + zipped()[-22:],
}


def read(path: Path) -> tuple[list[str], str]:
    """Names of what came out before the fault, and the fault."""
    names: list[str] = []
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    with pytest.raises(CorruptRecord, match=re.escape(path.name)) as fault:
        names.extend(member.name for member in read_archive(path, LIMITS))
    assert time.monotonic() - started < 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64_000
    return names, str(fault.value)


@pytest.mark.parametrize("name", KEEPS_THE_GOOD)
def test_fault_is_reported_and_the_good_member_before_it_is_kept(tmp_path: Path, name: str) -> None:
    home = tmp_path / "inside"
    home.mkdir()
    (home / "archive").write_bytes(KEEPS_THE_GOOD[name])
    assert read(home / "archive")[0][0] == "good"
    assert [path.name for path in tmp_path.rglob("*")] == ["inside", "archive"]


@pytest.mark.parametrize("name", [key for key, content in KEEPS_THE_GOOD.items() if not content.startswith(b"PK")])
def test_same_through_gzip(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(KEEPS_THE_GOOD[name], 1))
    assert read(tmp_path / "a.tar.gz")[1]


@pytest.mark.parametrize("name", NOTHING_TO_KEEP)
def test_archive_that_is_bad_from_the_start_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "x.gz").write_bytes(NOTHING_TO_KEEP[name])
    assert read(tmp_path / "x.gz")[0] == []


def test_million_empty_entries_stop_at_the_limit(tmp_path: Path) -> None:
    header = tar()[:512]
    empty = bytearray(header)
    empty[124:136] = b"00000000000\0"
    empty[148:156] = b" " * 8
    empty[148:156] = b"%06o\0 " % sum(empty)
    (tmp_path / "x.tar").write_bytes(bytes(empty) * 100_000)
    names, fault = read(tmp_path / "x.tar")
    assert len(names) == 1000
    assert "more than 1000 entries" in fault


def test_name_of_100_bytes_without_end_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(patched(ONE, 0, b"n" * 100))
    assert [len(member.name) for member in read_archive(tmp_path / "x.tar", LIMITS)] == [4, 100]


SEEDS: dict[str, Callable[[], bytes]] = {
    "tar": lambda: tar(entry("deep/b", b"x" * 700), kind=tarfile.PAX_FORMAT),
    "gz": lambda: gzip.compress(tar(entry("b", b"x" * 700))),
    "zip": lambda: zipped(("b", b"x" * 700)),
}


@settings(max_examples=100, deadline=None)
@example("zip", [(27, b"\x01"), (2430, b"\x00\x08")])  # a name that says it is UTF-8 and is not
@given(st.sampled_from(sorted(SEEDS)), st.lists(st.tuples(st.integers(0, 4000), st.binary(min_size=1, max_size=4))))
def test_any_damage_gives_members_or_one_clear_error(
    tmp_path_factory: pytest.TempPathFactory, kind: str, damage: list[tuple[int, bytes]]
) -> None:
    content = bytearray(SEEDS[kind]())
    for position, replacement in damage:
        position %= len(content)
        content[position : position + len(replacement)] = replacement
    path = tmp_path_factory.mktemp("fuzz") / "x"
    path.write_bytes(content)
    with contextlib.suppress(CorruptRecord):
        assert sum(len(member.content) for member in read_archive(path, LIMITS)) <= LIMITS.total_bytes
