"""Writes what the fuzzer begins with: small good chunks, records, tars, each behind the byte that chooses its reader.

usage: make_corpus.py DIRECTORY [CHUNK.gz ...]
"""

import gzip
import io
import struct
import sys
import tarfile
from pathlib import Path

SIZES = {3: 8276, 4: 8292, 5: 8308, 6: 8356, 7: 8396}


def record(version: int) -> bytes:
    """A lawful record: two kings, one legal move."""
    policy = [-1.0] * 1858
    policy[5] = 1.0
    planes = [0] * 104
    planes[5], planes[11] = 0x08, 0x08 << 56
    head = struct.pack("<I", version) + (struct.pack("<I", 1) if version >= 5 else b"")
    body = struct.pack("<1858f", *policy) + struct.pack("<104Q", *planes) + bytes(8)
    return (head + body).ljust(SIZES[version], b"\0")


def tar(form: int) -> bytes:
    """A tar of two chunks, one with a long name."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name in ("a.gz", "folder/" * 30 + "b.gz"):
            if form == tarfile.USTAR_FORMAT:
                name = name[-50:]
            info = tarfile.TarInfo(name)
            info.size = 3
            archive.addfile(info, io.BytesIO(b"abc"))
    return out.getvalue()[:8192]


def main() -> None:
    """Write the corpus."""
    home = Path(sys.argv[1])
    home.mkdir(parents=True, exist_ok=True)
    seeds = {f"records-v{version}": b"\1" + record(version) * 2 for version in SIZES}
    seeds |= {f"chunk-v{version}": b"\0" + gzip.compress(record(version) * 2) for version in SIZES}
    forms = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
    seeds |= {f"tar-{name}": b"\2" + tar(form) for name, form in forms.items()}
    seeds |= {Path(path).name: b"\0" + Path(path).read_bytes() for path in sys.argv[2:]}
    for name, data in seeds.items():
        (home / name).write_bytes(data)


if __name__ == "__main__":
    main()
