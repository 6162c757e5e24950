"""The real games beside the project, `../shared/data`; tests that need them skip with a sentence where they are absent."""

import gzip
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

DATA = Path(__file__).parents[2].parent / "shared" / "data"
RESULTS = {"whitewon": "1-0", "blackwon": "0-1", "draw": "1/2-1/2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RealGame:
    name: str
    moves: list[str]
    result: str
    records: bytes
    """Inflated V6 records, one a move."""


def require_data() -> None:
    if not DATA.is_dir():
        pytest.skip(f"the real games are absent: {DATA}")


def _chunks() -> Iterator[tuple[str, bytes]]:
    for path in sorted((DATA / "v6").glob("*.gz")):
        yield path.name, gzip.decompress(path.read_bytes())
    for path in sorted((DATA / "v6").glob("*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                if (file := tar.extractfile(member)) is not None:
                    yield Path(member.name).name, gzip.decompress(file.read())


def real_games() -> Iterator[RealGame]:
    """The games that the engine wrote, with their records; single files first."""
    games = json.loads((DATA / "v6" / "games.json").read_text())
    for name, records in _chunks():
        game = games[name]
        moves = game["moves"].split()[: game["positions"]]
        yield RealGame(name=name, moves=moves, result=RESULTS[game["result"]], records=records)


def real_move_lists() -> Iterator[list[str]]:
    """Moves of all real games at hand, those of the reference positions included: over 10,000 positions."""
    games = json.loads((DATA / "v6" / "games.json").read_text())
    for game in games.values():
        yield game["moves"].split()[: game["positions"]]
    reference = json.loads((DATA / "maia-1100.reference.json").read_text())
    for position in reference["positions"]:
        yield position["moves"].split()
