"""What `overfit` and `tune-lr` work on: a config, or a network with the config that `init` would write for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ludus_chess.loader import ChunkLoader
from ludus_chess.loader_config import LoaderConfig

from ludus.chess.learner import ChessBatch, ChessLearner
from ludus.chess.network_source import chess_shape, input_format_of, open_network
from ludus.chess.training.config_text import Plan, config_text
from ludus.chess.training.record_tensors import Refused, read_games
from ludus.config import (
    ChessAttentionConfig,
    ChessNetworkConfig,
    ChessResidualConfig,
    RunConfig,
    TrainConfig,
    load_or_demo,
    parse_resolved,
)
from ludus.errors import ConfigError
from ludus.train.learner_state import LearnerState
from ludus.train.learners import begun_with

CONFIGS = (".yaml", ".yml")
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A network to try things with, its training, and where its games are."""

    name: str
    config: RunConfig
    network: ChessNetworkConfig
    weights: Mapping[str, Any] | None
    """None: fresh ones."""
    directory: Path

    def learner(self, train: TrainConfig) -> ChessLearner:
        """What trains it in this process."""
        import jax

        return ChessLearner(chess_shape(self.network).build(), train, devices=jax.devices()[:1])

    def state(self, learner: ChessLearner, seed: int) -> LearnerState:
        """Where it begins."""
        fresh = learner.init(seed)
        if self.weights is None:
            return fresh
        return learner.state_from_tensors(begun_with(learner.state_tensors(fresh), dict(self.weights)))

    def loader(self, batch: int, seed: int) -> ChunkLoader:
        """Batches of positions of its games, mixed."""
        _need_games(self.directory, input_format_of(self.config))
        try:
            return ChunkLoader(
                LoaderConfig(
                    directory=self.directory,
                    batch_size=batch,
                    seed=seed,
                    reservoir=max(16 * batch, 4096),
                    memory_mb=64,
                    threads=1,
                    input_format=input_format_of(self.config),
                )
            )
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{self.directory}: {error}") from error


def open_subject(text: str, overrides: Sequence[str], directory: Path | None) -> Subject:
    """A YAML file with changes to it, or a network (run, version, `.pb.gz`).

    Raises:
        ConfigError: it does not train a chess network, or there are no games.
    """
    if Path(text).suffix in CONFIGS:
        config = load_or_demo(Path(text), overrides)
        start = config.policy.start
        source = None if start is None else open_network(start)
        name = config.name
    else:
        source = open_network(text)
        name = source.name
        if source.run is not None and source.config is not None and source.config.buffer.loader is not None:
            config = load_or_demo(source.run.config, overrides)
        else:
            plan = Plan(
                name="trial", directory="chunks", network=source.chess_network(), input_format=source.input_format
            )
            config = parse_resolved(config_text(plan), "trial.yaml", overrides)
    network = config.policy.network
    if not isinstance(network, ChessAttentionConfig | ChessResidualConfig):
        raise ConfigError(f"{text}: policy.network.kind is {network.kind}; expected chess_residual or chess_attention")
    return Subject(
        name=name,
        config=config,
        network=network,
        weights=None if source is None else source.weights,
        directory=_directory(config, directory, text),
    )


def _directory(config: RunConfig, given: Path | None, text: str) -> Path:
    loader = config.buffer.loader
    own = loader.options.get("directory") if loader is not None and loader.kind == "chess_chunks" else None
    found = given or (Path(str(own)) if own else None)
    if found is None or not found.is_dir():
        raise ConfigError(f"{found or text}: no directory of chunks; write it with --chunks DIRECTORY")
    return found


def next_batch(loader: ChunkLoader) -> ChessBatch:
    """The next positions. They come, because a game that can be used was seen."""
    batch = loader.get_next_batch(PATIENCE_S)
    if batch is None:
        raise ConfigError(f"{loader.config.directory}: no batch came of its chunks in {PATIENCE_S:.0f} s")
    return ChessBatch(*batch)


def _need_games(directory: Path, input_format: int) -> None:
    refused = ""
    for each in read_games(directory, input_format=input_format):
        if not isinstance(each, Refused):
            return
        refused = refused or f"; the first refusal: {each.problem}"
    raise ConfigError(f"{directory} has no chunks that can be used{refused}")
