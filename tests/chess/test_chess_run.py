"""Chess end to end: chunks come into a directory, rounds train on them, networks come out, kills change nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
from psutil import Process
from safetensors.numpy import load_file

pytest.importorskip("chess")
pytest.importorskip("ludus_chess", reason="the native part of chess is not built")

from tests.native.chunk_files import write_games

from ludus import SingleRun, parse_config
from ludus.chess.lc0_format import read_network

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
train: {{updates: 4, minibatch: 16, epochs: 1, algorithm: {{preset: chess}}}}
cycle:
  new_sequences: 6
  updates: 2
  export: null
  release: {{files: [{{path: "networks/{{name}}-{{step}}.pb.gz"}}]}}
evaluate: {{against: [], games: 0, final_games: 0, at_start: false}}
checkpoint: {{every: 1}}
telemetry: {{tensorboard: false, every_s: 0}}
"""


def train(where: Path, *, kill: bool = False) -> Path:
    """Two rounds; the games of the second come once the first network is out."""
    chunks, run = where / "chunks", where / "run"
    chunks.mkdir()
    write_games(chunks, range(12))
    one = SingleRun(parse_config(CONFIG.format(directory=chunks), "chess.yaml"), run)
    one.start()
    is_second, is_killed = False, not kill
    while not one.status().is_over:
        if not is_second and len(list(run.glob("networks/*.pb.gz"))) == 1:
            write_games(chunks, range(12, 24))
            is_second = True
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


def weights(run: Path) -> list[dict[str, bytes]]:
    versions = sorted(run.glob("policies/main/*/*.safetensors"))
    return [{name: tensor.tobytes() for name, tensor in load_file(path).items()} for path in versions]


def test_each_round_ends_in_a_network_that_can_be_read(unbroken: Path) -> None:
    networks = sorted(unbroken.glob("networks/*.pb.gz"))
    assert [path.name for path in networks] == ["chess-00000002.pb.gz", "chess-00000004.pb.gz"]
    assert read_network(networks[1]).config.kind == "chess_residual"
    assert not list((unbroken / "experiences").glob("*.arrow"))


def test_held_out_games_are_measured_after_each_round(unbroken: Path, check_promises: Any) -> None:
    rows = [json.loads(line) for line in (unbroken / "metrics.jsonl").read_text().splitlines()]
    assert len([row for row in rows if "train/validation/policy_top1" in row]) == 2
    check_promises("chess", unbroken)


def test_a_killed_trainer_changes_no_network(unbroken: Path, tmp_path: Path) -> None:
    again = train(tmp_path, kill=True)
    assert weights(again) == weights(unbroken)
    for path in sorted(unbroken.glob("networks/*.pb.gz")):
        assert (again / "networks" / path.name).read_bytes() == path.read_bytes()
