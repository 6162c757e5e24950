"""What people name when they mean a network: an lc0 file, a run, a version of it, or an exported version.

`net.pb.gz`, `runs/chess`, `runs/chess@12`, `runs/chess@main@12`, `runs/chess/exports/main-00000012`, and a checkpoint,
`runs/chess/checkpoints/00000420`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ludus.chess.lc0_format import Lc0Network, read_network
from ludus.config import ChessAttentionConfig, ChessNetworkConfig, ChessResidualConfig, RunConfig, load_config
from ludus.config.sections.chess import CHESS_MOVES, CHESS_PLANES
from ludus.errors import ConfigError
from ludus.policies import PolicyShape, PolicyStore
from ludus.policies.export import load_export
from ludus.policies.store import CARD, Policy, choose_policy
from ludus.storage.checkpoints import MANIFEST, CheckpointStore
from ludus.storage.run_directory import RunDirectory, find_run

SHAPE = (CHESS_PLANES, 8, 8)
NETWORK_FILES = (".pb.gz", ".pb")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSource:
    """A network with its weights, and where it came from."""

    name: str
    """Short, for file names."""
    shape: PolicyShape
    weights: Mapping[str, Any]
    input_format: int = 1
    """The planes that it wants, a number of lc0's."""
    steps: int = 0
    file: Lc0Network | None = None
    """Of an lc0 file."""
    run: RunDirectory | None = None
    config: RunConfig | None = None
    """Of a run."""
    version: str = ""
    """As `main@12` or `checkpoint 420`; empty for an lc0 file."""

    def chess_network(self) -> ChessNetworkConfig:
        """The config of a network of chess. Raises ConfigError for others, which also play chess:standard."""
        if not isinstance(self.shape.network, ChessAttentionConfig | ChessResidualConfig):
            raise ConfigError(
                f"{self.name} is a {self.shape.network.kind} network; this is for chess_residual and chess_attention"
            )
        return self.shape.network


def chess_shape(network: ChessNetworkConfig) -> PolicyShape:
    """The shape of a policy on chess:standard."""
    return PolicyShape(
        network=network,
        observation_shape=SHAPE,
        actions=CHESS_MOVES,
        layout="channels_first",
        games=("chess:standard",),
    )


def input_format_of(config: RunConfig) -> int:
    """The planes that a run trains on."""
    loader = config.buffer.loader
    found = loader.options.get("input_format", 1) if loader is not None and loader.kind == "chess_chunks" else 1
    return int(found) if isinstance(found, int) else 1


def open_network(text: str) -> NetworkSource:
    """The network that a text names.

    Raises:
        ConfigError: there is none, or it does not play chess.
        CorruptRecord: the file is damaged.
    """
    source = _open(text)
    if tuple(source.shape.observation_shape) != SHAPE or source.shape.actions != CHESS_MOVES:
        raise ConfigError(f"{source.name} plays {', '.join(source.shape.games)}, not chess:standard")
    return source


def _open(text: str) -> NetworkSource:
    path = Path(text)
    if text.endswith(NETWORK_FILES):
        return _of_file(path)
    if path.suffix == ".onnx":
        raise ConfigError(f"{path}: ludus writes ONNX and does not read it; name the .pb.gz or the run that it is of")
    if (path / CARD).is_file():
        return _of_policy(path.name, load_export(path))
    if path.name.isdigit() and (path / MANIFEST).is_file():
        return _of_checkpoint(path)
    folder, version = _split(text)
    run = find_run(folder)
    if not run.is_run():
        raise ConfigError(f"{folder} is neither a run nor a network (.pb.gz)")
    run.open()
    config = load_config(run.config)
    if config.buffer.loader is not None:
        buffer = config.buffer.model_copy(update={"loader": config.buffer.loader.of_run(str(run.path))})
        config = config.model_copy(update={"buffer": buffer})
    ref = choose_policy(run, config, version)
    loaded = PolicyStore(run.policies).load(ref)
    return _of_policy(f"{run.path.name}-{ref.name}-{ref.version}", loaded, run=run, config=config)


def _of_file(path: Path) -> NetworkSource:
    if not path.is_file():
        raise ConfigError(f"{path}: no such file")
    network = read_network(path)
    return NetworkSource(
        name=path.name.removesuffix(".gz").removesuffix(".pb"),
        shape=chess_shape(network.config),
        weights=network.weights,
        input_format=network.input_format,
        steps=int(network.message.get("training_params", {}).get("training_steps", 0)),
        file=network,
    )


def _of_checkpoint(path: Path) -> NetworkSource:
    path = path.absolute()
    run = RunDirectory(path.parent.parent)
    run.open()
    config = load_config(run.config)
    network = config.policy.network
    if not isinstance(network, ChessAttentionConfig | ChessResidualConfig):
        raise ConfigError(f"{path} holds a {network.kind} network; expected chess_residual or chess_attention")
    saved = CheckpointStore(path.parent, keep=1).load(int(path.name))
    return NetworkSource(
        name=f"{run.path.name}-checkpoint-{saved.update}",
        shape=chess_shape(network),
        weights=saved.tensors("weights"),
        input_format=input_format_of(config),
        run=run,
        config=config,
        version=f"checkpoint {saved.update}",
    )


def _of_policy(
    name: str, loaded: Policy[Any], *, run: RunDirectory | None = None, config: RunConfig | None = None
) -> NetworkSource:
    if not isinstance(loaded.shape, PolicyShape):
        raise ConfigError(f"{name} is no network that plays chess:standard")
    return NetworkSource(
        name=name,
        shape=loaded.shape,
        weights=loaded.weights,
        input_format=1 if config is None else input_format_of(config),
        steps=loaded.step,
        run=run,
        config=config,
        version=str(loaded.ref),
    )


def _split(text: str) -> tuple[Path, str | None]:
    """The directory of a run and its version: `runs/a@12` and `runs/a@main@12`."""
    path = Path(text)
    if "@" not in path.name or path.exists():
        return path, None
    folder, _, version = path.name.partition("@")
    return path.with_name(folder), version
