"""Chunks that come into a directory a batch at a time, hostile ones among them, and a small run in rounds over it."""

import gzip
import io
import tarfile
from pathlib import Path

from safetensors.numpy import load_file
from tests.native.chunk_files import make_game, write_games

CONFIG = """
name: chess
games: [chess:standard]
topology: split
mode: train
policy: {{network: {{kind: chess_residual, blocks: 1, filters: 8, squeeze: 4}}}}
buffer:
  loader:
    kind: chess_chunks
    options: {{directory: {directory}, positions: 32, reservoir: 64, memory_mb: 16, validation: 0.3, validation_positions: 8}}
train: {{updates: {updates}, minibatch: 16, epochs: 1, algorithm: {{preset: chess}}}}
cycle:
  new_sequences: 6
  updates: 2
  export: null
  release: {{files: [{{path: "networks/{{name}}-{{step}}.pb.gz"}}]{upload}}}
evaluate: {{against: [], games: 0, final_games: 0, at_start: false}}
checkpoint: {{every: 1}}
telemetry: {{tensorboard: false, every_s: 0}}
"""
GAMES = 12
"""Of a batch; rounds wait for 6 of those that are not held out."""


def arrive(directory: Path, number: int, *, is_hostile: bool = False) -> None:
    """Batch `number` comes at once: a folder is renamed, so that no round begins with a part of it."""
    if (directory / f"{number:03d}").exists():
        return
    hidden = directory / f".{number:03d}"
    write_games(hidden, range(GAMES * number, GAMES * (number + 1)))
    if is_hostile:
        write_hostile(hidden, GAMES * number)
    hidden.rename(directory / f"{number:03d}")


def write_hostile(folder: Path, first: int) -> None:
    """Every kind of damage once, under names that come right behind that of game `first`."""
    good = gzip.compress(make_game(first + 1), mtime=0)
    broken = {
        "a_text": b"this is no gzip file at all",
        "b_truncated": good[:-500],
        "c_bomb": gzip.compress(bytes(100 << 20)),
        "d_version": gzip.compress(b"\x09\0\0\0" + make_game(first)[4:]),
        "e_cut": gzip.compress(make_game(first)[:-1]),
        "f_empty": b"",
        "g_twice": good,
    }
    for name, content in broken.items():
        (folder / f"training.{first:06d}{name}.gz").write_bytes(content)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        _add(tar, "../../outside.gz", gzip.compress(make_game(first + 1000), mtime=0))
        _add(tar, "/etc/passwd", b"", tarfile.SYMTYPE)
        _add(tar, "device.gz", b"", tarfile.CHRTYPE)
        whole = tar.offset
    (folder / f"training.{first:06d}h_archive.tar").write_bytes(archive.getvalue()[:whole] + b"junk" * 128)


def _add(tar: tarfile.TarFile, name: str, data: bytes, kind: bytes = tarfile.REGTYPE) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(data), kind, "/etc/passwd"
    tar.addfile(info, io.BytesIO(data))


def weights(run: Path) -> list[dict[str, bytes]]:
    """Every version's."""
    versions = sorted(run.glob("policies/main/*/*.safetensors"))
    return [{name: tensor.tobytes() for name, tensor in load_file(path).items()} for path in versions]


def networks(run: Path) -> dict[str, bytes]:
    """Files that were released."""
    return {path.name: path.read_bytes() for path in sorted(run.glob("networks/*.pb.gz"))}
