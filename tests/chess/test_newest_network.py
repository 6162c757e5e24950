"""`ludus chess selfplay --follow`: a run's newest version plays, and the loop closes with nothing else installed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ludus_chess", reason="the native part of chess is not built")

from ludus import SingleRun, parse_config
from ludus.chess import newest_network
from ludus.chess.chunks import game_of, read_chunks
from ludus.chess.evaluators import open_evaluator
from ludus.chess.network_source import chess_shape, open_network
from ludus.chess.newest_network import NewestNetwork
from ludus.chess.training.starts import fresh_weights, write_start
from ludus.config import ChessResidualConfig, RunConfig, dump_config
from ludus.errors import ConfigError
from ludus.policies import PolicyStore
from ludus.records import PolicyName, PolicyRef, PolicyVersion
from ludus.storage.run_directory import RunDirectory

PLANES = (np.random.default_rng(0).random((1, 112, 8, 8)) < 0.1).astype(np.float32)


def small() -> RunConfig:
    return parse_config(
        """
name: small
games: [chess:standard]
topology: split
mode: train
policy: {network: {kind: chess_residual, blocks: 1, filters: 8, heads: {policy: {vanilla: {kind: convolution}}}}}
buffer:
  loader:
    kind: chess_chunks
    options: {directory: "{run}/chunks", positions: 32, reservoir: 100}
    command: [ludus, chess, selfplay, "{run}", --follow, --forever, --visits, "3", --parallel, "4", --max-plies, "12",
              --out, "{run}/chunks"]
cycle: {new_sequences: 8, updates: 1, export: null}
train: {updates: 8, minibatch: 16, epochs: 1, algorithm: {preset: chess}}
evaluate: {games: 0, final_games: 0}
telemetry: {tensorboard: false}
""",
        "small.yaml",
    )


def publish(run: Path, version: int, seed: int) -> None:
    network = open_network(str(run)).chess_network()
    ref = PolicyRef(name=PolicyName("main"), version=PolicyVersion(version))
    store = PolicyStore(RunDirectory(run).policies)
    store.publish(ref, fresh_weights(network, seed), chess_shape(network), step=version)


def test_it_waits_for_the_first_version_and_takes_each_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newest_network, "POLL_S", 0.0)
    run, said, config = tmp_path / "run", list[str](), small()
    network = config.policy.network
    assert isinstance(network, ChessResidualConfig)

    def say(text: str) -> None:
        said.append(text)
        if "waiting" in text:
            write_start(run, dump_config(config), fresh_weights(network, 0))

    newest = NewestNetwork(str(run), say)
    first = newest()
    assert newest() is first
    assert (first.name, newest.run_name) == ("run-main-0", "run")
    publish(run, 3, seed=7)
    later = newest()
    assert later.name == "run-main-3"
    np.testing.assert_array_equal(later(PLANES).logits, open_evaluator(str(run))(PLANES).logits)
    assert not np.allclose(later(PLANES).logits, first(PLANES).logits)
    assert said == [f"waiting for the first version of {run}", "now playing main@3"]


def test_only_runs_are_followed(tmp_path: Path) -> None:
    for name in ("net.pb.gz", "net.pb", "run@3"):
        with pytest.raises(ConfigError, match=r"--follow: .* never changes; name a run"):
            NewestNetwork(str(tmp_path / name))


@pytest.mark.slow
def test_a_run_learns_from_the_games_of_its_own_newest_network(tmp_path: Path) -> None:
    run = tmp_path / "run"
    status = SingleRun(small(), run).run_to_end()
    assert status.stage == "done"
    rounds = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert len([row for row in rounds if row["event"] == "round_began"]) == 8
    assert "now playing main@" in (run / "logs" / "latest" / "producer.log").read_text()
    chunks = sorted((run / "chunks").glob("run_*.gz"))
    assert len(chunks) >= 8 * 8
    opinions = {float(np.round(game_of(chunk)["orig_q"][0], 5)) for chunk in read_chunks([run / "chunks"])}
    assert len(opinions) > 1  # of the start position: one for each version that played
