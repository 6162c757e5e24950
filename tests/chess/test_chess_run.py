"""Chess end to end: chunks come into a directory, rounds train on them, networks come out, kills change nothing."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from psutil import Process

pytest.importorskip("chess")
pytest.importorskip("ludus_chess", reason="the native part of chess is not built")

from tests.chess.chunk_arrivals import CONFIG, GAMES, arrive, networks, weights

from ludus import SingleRun, parse_config
from ludus.chess.lc0_format import read_network
from ludus.cli.inspect import inspect
from ludus.daemon.run_watch import RunWatch


def train(where: Path, *, kill: bool = False, trainers: int = 1) -> Path:
    """Two rounds; the games of the second come once the first network is out. Hostile files come with both."""
    chunks, run = where / "chunks", where / "run"
    chunks.mkdir()
    arrive(chunks, 0, is_hostile=True)
    text = CONFIG.format(directory=chunks, updates=4, upload="")
    one = SingleRun(parse_config(text.replace("minibatch:", f"trainers: {trainers}, minibatch:"), "chess.yaml"), run)
    one.start()
    is_killed = not kill
    while not one.status().is_over:
        if len(networks(run)) == 1:
            arrive(chunks, 1, is_hostile=True)
        if one.wait(0.005).update >= 1 and not is_killed:
            for child in Process().children(recursive=True):
                if any("train.worker" in word for word in child.cmdline()):
                    child.kill()
                    is_killed = True
    assert one.wait().stage == "done", one.status().error
    assert is_killed
    return run


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("chess"))


def test_each_round_ends_in_a_network_that_can_be_read(unbroken: Path) -> None:
    assert list(networks(unbroken)) == ["chess-00000002.pb.gz", "chess-00000004.pb.gz"]
    assert read_network(unbroken / "networks/chess-00000004.pb.gz").config.kind == "chess_residual"
    assert not list((unbroken / "experiences").glob("*.arrow"))


def test_held_out_games_are_measured_after_each_round(unbroken: Path, check_promises: Any) -> None:
    rows = [json.loads(line) for line in (unbroken / "metrics.jsonl").read_text().splitlines()]
    assert len([row for row in rows if "train/validation/policy_top1" in row]) == 2
    check_promises("chess", unbroken)


@pytest.mark.slow  # tests/faults/test_chess_daemon_kills.py kills a trainer, too
def test_a_killed_trainer_changes_no_network(unbroken: Path, tmp_path: Path) -> None:
    again = train(tmp_path, kill=True)
    assert weights(again) == weights(unbroken)
    assert networks(again) == networks(unbroken)
    assert hostile(0) | {hostile_archive(1)} <= refused(again)


def refused(run: Path) -> set[tuple[str, str]]:
    """Files below the chunks' directory, each with a reason."""
    lines = [json.loads(line) for line in (run / "refused_chunks.jsonl").read_text().splitlines()]
    assert len({(row["file"], row["member"], row["offset"], row["reason"]) for row in lines}) == len(lines)
    return {(row["file"], row["reason"]) for row in lines}


def hostile(batch: int) -> set[tuple[str, str]]:
    reasons = {"a_text": "gzip", "b_truncated": "gzip", "c_bomb": "bomb", "d_version": "version", "e_cut": "size"}
    found = {(f"{batch:03d}/training.{GAMES * batch:06d}{name}.gz", reason) for name, reason in reasons.items()}
    return found | {hostile_archive(batch)}


def hostile_archive(batch: int) -> tuple[str, str]:
    """Refused when it is found. The others are refused when they are drawn: those of the last batch perhaps never."""
    return f"{batch:03d}/training.{GAMES * batch:06d}h_archive.tar", "tar"


def test_hostile_files_are_listed_with_a_reason_counted_and_left_where_they_are(
    unbroken: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = refused(unbroken)
    assert hostile(0) | {hostile_archive(1)} <= found
    assert "duplicate" in {reason for _, reason in found}
    for file, _ in hostile(0) | hostile(1):
        assert (unbroken.parent / "chunks" / file).is_file()
    assert not (unbroken.parent / "outside.gz").exists()
    last = json.loads((unbroken / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["loader/refused/bomb"] >= 1
    status = RunWatch(unbroken).status()
    assert status.loader is not None
    assert status.loader.refused["tar"] == 2
    assert {"directory_watch", "validation", "chunk_pool"} <= {stage.name for stage in status.loader.stages}
    inspect(unbroken)
    text = capsys.readouterr().out
    assert "tar: 2" in text
    assert "refused_chunks.jsonl has all" in text


@pytest.mark.slow
def test_two_trainers_end_where_one_does(unbroken: Path, tmp_path: Path) -> None:
    again = train(tmp_path, trainers=2)
    for ours, theirs in zip(weights(again), weights(unbroken), strict=True):
        for name, tensor in ours.items():
            one, two = (np.frombuffer(data, np.float32) for data in (tensor, theirs[name]))
            np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-5, err_msg=name)
    assert weights(again)[-1] != weights(unbroken)[-1], "two devices round in another order"
