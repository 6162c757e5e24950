"""Published policy versions: `policies/<name>/<version>/{weights.safetensors, policy.json}`.

Invariant: a version that can be seen is whole (it is published by one rename) and never changes. Publishing a version
again with the same weights is a no-op; with other weights it is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from ludus.config.play import NetworkConfig
from ludus.errors import CorruptRecord, StorageError
from ludus.records import PolicyName, PolicyRef, PolicyVersion
from ludus.storage.atomic import discard_tree, ensure_directory, publish_directory, temporary_name, write_json
from ludus.storage.tensors import load_tensors, save_tensors, tensors_hash

if TYPE_CHECKING:
    from ludus.policies.networks import PolicyNetwork

WEIGHTS = "weights.safetensors"
CARD = "policy.json"
FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyShape:
    """What a network must fit: enough to build it again without the run's config."""

    network: NetworkConfig
    observation_shape: tuple[int, ...]
    actions: int
    layout: str
    """Which axis of a board observation holds the planes: `channels_first` or `channels_last`."""
    games: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """JSON from which `from_json` restores the shape."""
        return {
            "network": self.network.model_dump(mode="json"),
            "observation_shape": list(self.observation_shape),
            "actions": self.actions,
            "layout": self.layout,
            "games": list(self.games),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> PolicyShape:
        """The inverse of `to_json`; other keys are passed over."""
        network: Any = TypeAdapter(NetworkConfig).validate_python(values["network"])
        return cls(
            network=network,
            observation_shape=tuple(values["observation_shape"]),
            actions=int(values["actions"]),
            layout=str(values["layout"]),
            games=tuple(values["games"]),
        )

    def build(self) -> PolicyNetwork:
        """The network, without weights."""
        from ludus.policies.networks import build_network

        return build_network(
            self.network, observation_shape=self.observation_shape, actions=self.actions, layout=self.layout
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A loaded version."""

    ref: PolicyRef
    shape: PolicyShape
    weights: Mapping[str, NDArray[Any]]
    weights_hash: str
    step: int


class PolicyStore:
    """Reads and publishes versions under one folder. Any number of readers; one publisher."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def path(self, ref: PolicyRef) -> Path:
        """Where a version lives."""
        return self._directory / ref.name / f"{ref.version:08d}"

    def has(self, ref: PolicyRef) -> bool:
        """Whether the version is published."""
        return (self.path(ref) / CARD).is_file()

    def publish(self, ref: PolicyRef, weights: Mapping[str, NDArray[Any]], shape: PolicyShape, *, step: int) -> str:
        """Publish a version; returns its weights hash."""
        digest = tensors_hash(weights)
        final = self.path(ref)
        if self.has(ref):
            if self._card(ref)["weights_hash"] != digest:
                raise StorageError(f"{ref} is published already with other weights; a version never changes")
            return digest
        ensure_directory(final.parent)
        staging = temporary_name(final.parent)
        staging.mkdir()
        save_tensors(staging / WEIGHTS, weights, {"policy": str(ref), "weights_hash": digest})
        write_json(staging / CARD, self._make_card(ref, shape, digest, step))
        publish_directory(staging, final)
        return digest

    def load(self, ref: PolicyRef) -> Policy:
        """Load a version, whole and checked against its hash."""
        card = self._card(ref)
        weights = load_tensors(self.path(ref) / WEIGHTS)
        if tensors_hash(weights) != card["weights_hash"]:
            raise CorruptRecord(f"{self.path(ref) / WEIGHTS} does not match the hash in its {CARD}")
        return Policy(
            ref=ref,
            shape=PolicyShape.from_json(card),
            weights=weights,
            weights_hash=card["weights_hash"],
            step=int(card["step"]),
        )

    def versions(self, name: str) -> list[PolicyRef]:
        """All published versions of a policy, oldest first."""
        folder = self._directory / name
        if not folder.is_dir():
            return []
        numbers = sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())
        refs = [PolicyRef(name=PolicyName(name), version=PolicyVersion(number)) for number in numbers]
        return [ref for ref in refs if self.has(ref)]

    def names(self) -> list[str]:
        """Policies that have at least one published version."""
        if not self._directory.is_dir():
            return []
        return sorted(path.name for path in self._directory.iterdir() if self.versions(path.name))

    def prune(self, name: str, keep: Iterable[PolicyRef]) -> list[PolicyRef]:
        """Remove versions that are not to be kept; the newest always stays."""
        versions = self.versions(name)
        kept = {*keep, *versions[-1:]}
        removed = [ref for ref in versions if ref not in kept]
        for ref in removed:
            discard_tree(self.path(ref))
        return removed

    def _card(self, ref: PolicyRef) -> dict[str, Any]:
        path = self.path(ref) / CARD
        try:
            card = json.loads(path.read_text())
        except FileNotFoundError:
            known = [str(other) for other in self.versions(ref.name)]
            raise StorageError(
                f"no policy {ref} in {self._directory}; there are: {', '.join(known) or 'none'}"
            ) from None
        except ValueError as error:
            raise CorruptRecord(f"{path} is not valid JSON: {error}") from error
        if not isinstance(card, dict) or card.get("format") != FORMAT:
            raise CorruptRecord(f"{path} has format {card.get('format')!r}; this version of ludus reads {FORMAT}")
        return card

    @staticmethod
    def _make_card(ref: PolicyRef, shape: PolicyShape, digest: str, step: int) -> dict[str, Any]:
        identity = {"format": FORMAT, "name": ref.name, "version": ref.version, "step": step, "weights_hash": digest}
        return {**identity, **shape.to_json()}


def as_numpy(weights: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Device arrays by name as NumPy arrays by name."""
    return {name: np.asarray(tensor) for name, tensor in weights.items()}
