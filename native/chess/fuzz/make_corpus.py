"""Writes what the fuzzer begins with: small good inputs, each behind the byte that chooses its reader.

usage: make_corpus.py DIRECTORY [CHUNK.gz ...]
"""

import gzip
import io
import struct
import sys
import tarfile
from pathlib import Path

PGN = """[Event "a"]
[Result "1-0"]
[FEN "4k3/P7/8/8/8/8/8/4K2R w K - 0 1"]

1. O-O {good} (1. a8=Q+ Kd7) Ke7 $1 2. a8=N ; rest
1-0

1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 4. Bxc6 dxc6 5. O-O 1/2-1/2
"""
MOVES = {
    "castling": "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1\nO-O e8c8 a4 b4a3 Nxd7",
    "pawnless": "8/8/8/4k3/8/3K4/8/7R w - - 0 1\nRh5+ e5f6 Kd4 f6g6 Rh1 g6f6",
    "en-passant": "8/2k5/8/8/3pP3/8/5K2/8 b - e3 0 1\ndxe3+ f2e3 Kd6",
    "chess960": "nrbkqrbn/pppppppp/8/8/8/8/PPPPPPPP/NRBKQRBN w FBfb - 0 1\nNb3 h8g6 O-O-O g6f4",
}
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
    seeds |= {"pgn": b"\4" + PGN.encode()} | {f"moves-{name}": b"\5" + text.encode() for name, text in MOVES.items()}
    seeds |= {Path(path).name: b"\0" + Path(path).read_bytes() for path in sys.argv[2:]}
    for name, data in seeds.items():
        (home / name).write_bytes(data)


if __name__ == "__main__":
    main()
