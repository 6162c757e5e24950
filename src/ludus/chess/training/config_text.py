"""The commented YAML that `ludus chess init` writes: training from a directory of chunks, in rounds.

Invariant: what is written is a config that `ludus check` takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

from ludus.config import ChessNetworkConfig, TermConfig, parse_resolved

_OBJECTIVE = {"policy": "chess_policy", "value": "chess_value", "moves_left": "chess_moves_left"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a config is to say."""

    name: str
    directory: str
    network: ChessNetworkConfig
    input_format: int = 1
    start: str | None = None
    """Run that holds the weights to begin with."""
    release: tuple[str, ...] = ("lc0",)
    new_chunks: int = 1000
    updates: int = 100
    """Of a round."""
    rounds: int = 100
    minibatch: int = 256
    learning_rate: float = 1e-3


def config_text(plan: Plan) -> str:
    """YAML with a comment for what people change."""
    text = _TEMPLATE.format(
        name=plan.name,
        start="" if plan.start is None else f"  start: {_scalar(plan.start)}  # the weights to begin with\n",
        network=_indented(_network(plan.network), 4),
        directory=_scalar(plan.directory),
        input_format=plan.input_format,
        minibatch=plan.minibatch,
        positions=4 * plan.minibatch,
        total=plan.updates * plan.rounds,
        rounds=plan.rounds,
        learning_rate=plan.learning_rate,
        objective=_indented(_objective_text(plan.network), 6),
        new_chunks=plan.new_chunks,
        updates=plan.updates,
        release=_release(plan.release),
    )
    parse_resolved(text, f"{plan.name}.yaml")
    return text


def objective_of(network: ChessNetworkConfig) -> tuple[TermConfig, ...]:
    """The preset's losses on the main heads of a network, as far as it has them."""
    return tuple(TermConfig(**term) for term in _objective(network))


def _objective(network: ChessNetworkConfig) -> list[dict[str, Any]]:
    heads = network.heads
    terms: list[dict[str, Any]] = [
        {"loss": "chess_policy", "options": {"head": heads.main_policy}},
        {"loss": "chess_value", "options": {"head": heads.main_value, "target": "result"}},
    ]
    if heads.moves_left:
        main = "main" if "main" in heads.moves_left else next(iter(heads.moves_left))
        terms.append({"loss": "chess_moves_left", "weight": 0.5, "options": {"head": main}})
    return terms


def _objective_text(network: ChessNetworkConfig) -> str:
    return "".join(f"- {_flow(term)}\n" for term in _objective(network))


def _network(network: ChessNetworkConfig) -> str:
    """Every key, so that the weights of a file fit whatever the defaults become."""
    return yaml.safe_dump(network.model_dump(mode="json"), sort_keys=False)


def _flow(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1000).strip()


def _scalar(text: str) -> str:
    return yaml.safe_dump(text, default_style='"', width=10**6).strip()


def _indented(text: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in text.splitlines())


def _release(formats: tuple[str, ...]) -> str:
    if not formats:
        return "  release: null\n"
    suffixes = {"lc0": "pb.gz", "onnx": "onnx"}
    files = "".join(
        f'      - {{format: {form}, path: "networks/{{name}}-{{step}}.{suffixes[form]}"}}\n' for form in formats
    )
    return (
        f"  release:  # files for other programs, in the run's directory; `upload:` sends them on\n    files:\n{files}"
    )


_TEMPLATE = """\
# A chess network from a directory of training chunks.
#   check:   ludus check {name}.yaml
#   train:   ludus chess train {name}.yaml      (again: resumes)
#   measure: ludus chess eval runs/{name}
name: {name}
games: [chess:standard]
topology: split
mode: train  # the games are played elsewhere

policy:
{start}  network:
{network}
buffer:
  loader:
    kind: chess_chunks
    options:
      directory: {directory}  # watched: .gz chunks and .tar files of them, also those that come later
      input_format: {input_format}  # chunks of any other are refused
      positions: {positions}  # of an update: four minibatches
      validation: 0.05  # share of the games that is held out
      pool_chunks: 100000  # the newest games, drawn without replacement
      reservoir: 100000  # positions that are mixed
      rate: 1.0  # share of a game's positions that one use takes

train:
  updates: {total}  # {rounds} rounds
  minibatch: {minibatch}
  epochs: 1
  algorithm:
    preset: chess
    objective:  # a loss for each head that learns
{objective}  optimizer:
    kind: nadamw
    learning_rate: {learning_rate}  # `ludus chess tune-lr` suggests one
    schedule: cosine
    warmup_fraction: 0.01
    max_grad_norm: 10.0

cycle:  # wait for new games, train, release, and so on
  new_sequences: {new_chunks}  # chunks to wait for before each round
  updates: {updates}  # of each round
  export: null
{release}
evaluate:
  against: [random]  # strength, beside the losses on held-out games; also: "uci:stockfish?nodes=1"
  games: 20
"""
