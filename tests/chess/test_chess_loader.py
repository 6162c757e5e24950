"""The chunk loader as a trainer pulls from it: rounds, a state in JSON, stages, and errors in one sentence."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("chess")
pytest.importorskip("ludus_chess", reason="the native part of chess is not built")

from tests.native.chunk_files import assert_same, write_games

from ludus import parse_config
from ludus.chess.loader import ChessChunks
from ludus.errors import ConfigError, CorruptRecord
from ludus.train.loaders import RoundLoader, StagedLoader, ValidatingLoader, check_loader

CONFIG = """
name: chunks
games: [chess:standard]
topology: split
mode: train
policy: {network: {kind: chess_residual, blocks: 1, filters: 8}}
buffer: {loader: {kind: chess_chunks, options: {directory: chunks}}}
train: {minibatch: 8}
"""
ROUNDS = CONFIG + "cycle: {new_sequences: 4, updates: 2}"


def make(directory: Path, config: str = ROUNDS, **options: Any) -> ChessChunks:
    small = {"positions": 16, "reservoir": 64, "memory_mb": 16, "validation": 0.0, "waiting": lambda: None}
    given = {**small, **options}
    return ChessChunks(config=parse_config(config, "chunks.yaml"), seed=3, directory=str(directory), **given)


def copied(loader: ChessChunks, batches: int) -> list[Any]:
    return [tuple(tensor.copy() for tensor in loader.next()) for _ in range(batches)]


def wait_for_new(loader: ChessChunks, chunks: int) -> None:
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

    loader = make(tmp_path, CONFIG, waiting=waiting)
    assert len(loader.next()[0]) == 16
    assert told
    loader.close()


def test_options_and_states_that_cannot_be_are_config_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="rate"):
        make(tmp_path, rate=2.0)
    with pytest.raises(ConfigError, match=r"positions: 12 is no multiple of train.minibatch \(8\)"):
        make(tmp_path, positions=12)
    unknown = CONFIG.replace("directory: chunks", "directory: chunks, no_such: 1")
    with pytest.raises(ConfigError, match="no_such"):
        check_loader(parse_config(unknown, "chunks.yaml"))
    loader = make(tmp_path)
    with pytest.raises(CorruptRecord, match="cannot be used"):
        loader.load_state({"chess_chunks": "AAAA"})
    loader.close()


def test_a_part_of_the_chunks_is_held_out_and_never_trained_on(tmp_path: Path) -> None:
    write_games(tmp_path, range(12))
    loader = make(tmp_path, CONFIG, validation=0.5, validation_positions=8)
    assert isinstance(loader, ValidatingLoader)
    trained = {plane.tobytes() for planes, _, _ in copied(loader, 40) for plane in planes[:, :104]}
    while (held_out := loader.held_out()) is None:
        pass
    # Games begin alike; their late positions do not.
    assert any(plane.tobytes() not in trained for plane in held_out[0][:, :104])
    loader.close()


def test_measurements_are_of_all_games_that_are_there_and_of_the_same_where_asked(tmp_path: Path) -> None:
    write_games(tmp_path, range(2))
    moving = make(tmp_path, CONFIG, validation=0.5, validation_positions=64)
    fixed = make(tmp_path, CONFIG, validation=0.5, validation_positions=64, validation_fixed=True)
    write_games(tmp_path, range(2, 24))
    for loader in (moving, fixed):
        while loader.new_sequences() < 6 or (first := loader.held_out()) is None:
            pass
        kept = first[0].copy()
        # Eight positions of each game at most: 64 of two games would repeat themselves.
        assert len({plane.tobytes() for plane in kept}) > 16
        again = loader.held_out()
        assert again is not None
        assert np.array_equal(again[0], kept) == (loader is fixed)
        loader.close()


def test_a_round_whose_chunks_are_gone_trains_on_those_that_are_left_and_says_so(tmp_path: Path) -> None:
    write_games(tmp_path, range(6))
    told: list[str] = []
    loader = make(tmp_path, admit_wait_s=0.0, waiting=lambda: told.append(loader.problem()))
    wait_for_new(loader, 6)
    for seed in (0, 1):
        (tmp_path / f"training.{seed:06d}.gz").unlink()
    again = make(tmp_path, admit_wait_s=0.0, waiting=lambda: told.append(again.problem()))
    loader.close()
    again.admit(6)
    gone = f"2 of the 6 new chunks of this round are gone from {tmp_path}; it trains on the 4 that are there"
    assert again.problem() == gone
    assert len(again.next()[0]) == 16
    assert again.new_sequences() == 0
    again.close()


def test_a_round_waits_for_a_directory_and_says_why(tmp_path: Path) -> None:
    chunks, told = tmp_path / "chunks", []

    def waiting() -> None:
        told.append(loader.problem())
        if len(told) == 1:
            chunks.write_text("")
        elif len(told) == 2:
            chunks.unlink()
            chunks.mkdir()
        elif told[-1] == f"0 of the 2 new chunks that were counted are in {chunks}":
            write_games(chunks, range(2))

    loader = make(chunks, admit_wait_s=0.0, waiting=waiting)
    assert loader.problem() == f"{chunks} does not exist"
    loader.admit(2)
    assert told[:2] == [f"{chunks} does not exist", f"{chunks} is not a directory"]
    assert len(loader.next()[0]) == 16
    assert loader.problem() == ""
    loader.close()


def test_a_round_of_refused_chunks_goes_on_with_the_next_that_come(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"training.{number:06d}.gz").write_bytes(b"no gzip file")

    def waiting() -> None:
        write_games(tmp_path, range(3, 6))

    loader = make(tmp_path, waiting=waiting)
    wait_for_new(loader, 3)
    loader.admit(3)
    assert len(loader.next()[0]) == 16
    listed, unlisted = loader.take_refusals()
    assert [(one.file, one.reason) for one in sorted(listed, key=lambda one: one.file)] == [
        (f"training.{number:06d}.gz", "gzip") for number in range(3)
    ]
    assert (unlisted, loader.take_refusals()) == ({}, ([], {}))
    loader.close()


def test_refusals_that_come_too_fast_to_be_listed_are_counted(tmp_path: Path) -> None:
    for number in range(1100):
        (tmp_path / f"training.{number:06d}.gz").write_bytes(b"")
    write_games(tmp_path, [2000])
    loader = make(tmp_path, CONFIG)
    assert len(loader.next()[0]) == 16
    while loader.new_sequences() >= 0 and sum(loader._stats.refused.values()) < 1100:
        pass
    listed, unlisted = loader.take_refusals()
    assert (len(listed), unlisted) == (1000, {"gzip": 100})
    loader.close()
