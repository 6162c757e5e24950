"""The chunk loader as a trainer pulls from it: rounds, a state in JSON, stages, and errors in one sentence."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("chess")
pytest.importorskip("ludus_chess", reason="the native part of chess is not built")

from tests.native.chunk_files import assert_same, write_games

from ludus.chess.loader import ChessLoader
from ludus.errors import ConfigError
from ludus.train.loaders import RoundLoader, StagedLoader


def make(directory: Path, **options: Any) -> ChessLoader:
    small = {"batch_size": 16, "reservoir": 64, "memory_mb": 16, "rounds": True}
    return ChessLoader(seed=3, directory=directory, **{**small, **options})


def copied(loader: ChessLoader, batches: int) -> list[Any]:
    return [tuple(tensor.copy() for tensor in loader.next()) for _ in range(batches)]


def wait_for_new(loader: ChessLoader, chunks: int) -> None:
    while loader.new_sequences() < chunks:
        pass


def test_a_resume_from_json_repeats_rounds_and_batches(tmp_path: Path) -> None:
    write_games(tmp_path, range(10))
    loader = make(tmp_path)
    assert isinstance(loader, RoundLoader)
    assert isinstance(loader, StagedLoader)
    wait_for_new(loader, 10)
    loader.admit(4)
    assert loader.new_sequences() == 6
    copied(loader, 3)
    loader.admit(3)
    state = json.loads(json.dumps(loader.state()))
    wanted = copied(loader, 8)
    assert {stage.name for stage in loader.stages()} >= {"directory_watch", "chunk_pool", "reservoir", "tensors"}
    loader.close()
    again = make(tmp_path)
    again.load_state(state)
    for ours, theirs in zip(copied(again, 8), wanted, strict=True):
        assert_same(ours, theirs)
    assert again.new_sequences() == 3
    again.close()


def test_whoever_waits_for_chunks_is_told_so(tmp_path: Path) -> None:
    told: list[bool] = []

    def waiting() -> None:
        if not told:
            write_games(tmp_path, range(2))
        told.append(True)

    loader = make(tmp_path, rounds=False, waiting=waiting)
    assert len(loader.next()[0]) == 16
    assert told
    loader.close()


def test_options_and_states_that_cannot_be_are_config_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="rate"):
        make(tmp_path, rate=2.0)
    with pytest.raises(ConfigError, match="no_such"):
        make(tmp_path, no_such=1)
    loader = make(tmp_path)
    with pytest.raises(ConfigError, match="cannot continue"):
        loader.load_state({"loader": "AAAA"})
    loader.close()
