"""Published policy versions: `policies/<name>/<version>/` with weights as safetensors and a card, `policy.json`.

Which files hold the weights and what lies beside them is for the policy's shape to say; networks have
`weights.safetensors`, language models the files that peft and transformers read.

Invariant: a version that can be seen is whole (it is published by one rename) and never changes. Publishing a version
again with the same weights is a no-op; with other weights it is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, overload

import numpy as np
from numpy.typing import NDArray

from ludus.config import RunConfig
from ludus.errors import ConfigError, CorruptRecord, StorageError
from ludus.lm.language_shape import LanguageModelShape
from ludus.policies.shapes import AnyShape, ShapeT_co, shape_from_json
from ludus.records import PolicyName, PolicyRef, PolicyVersion
from ludus.runtime.node_files import NodeFiles
from ludus.storage.atomic import (
    discard_tree,
    ensure_directory,
    json_bytes,
    publish_directory,
    stage_pieces,
    temporary_name,
)
from ludus.storage.filesystem import REAL
from ludus.storage.run_directory import RunDirectory
from ludus.storage.tensor_shards import TensorFolder
from ludus.storage.tensors import check_tensor_file, load_tensors, stage_named, tensors_hash

CARD = "policy.json"
FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(Generic[ShapeT_co]):
    """A loaded version."""

    ref: PolicyRef
    shape: ShapeT_co
    weights: Mapping[str, NDArray[Any]]
    weights_hash: str
    step: int


class PolicyStore:
    """Reads and publishes versions under one folder. Any number of readers; one publisher."""

    def __init__(self, directory: Path, files: NodeFiles | None = None) -> None:
        """`files` brings versions to a machine that does not see the run's disk."""
        self._directory = directory
        self.files = files or NodeFiles(None)
        """What brings files to this machine."""

    @property
    def directory(self) -> Path:
        """Where all versions are."""
        return self._directory

    def path(self, ref: PolicyRef) -> Path:
        """Where a version lives."""
        return self._directory / ref.name / f"{ref.version:08d}"

    def has(self, ref: PolicyRef) -> bool:
        """Whether the version is published."""
        return (self.path(ref) / CARD).is_file()

    def has_policy(self, name: str) -> bool:
        """Whether there is a policy of this name, in whatever versions."""
        return self.files.has_folder(self._directory / name)

    def publish(
        self,
        ref: PolicyRef,
        weights: Mapping[str, NDArray[Any]],
        shape: AnyShape,
        *,
        step: int,
        beside: Mapping[str, bytes] = {},
    ) -> str:
        """Publish a version, with files `beside` its weights (read one by one if lazy); returns its weights hash."""
        weights = _as_published(weights, shape)
        digest = tensors_hash(weights)
        final = self.path(ref)
        if self.has(ref):
            if self._card(ref)["weights_hash"] != digest:
                raise StorageError(f"{ref} is published already with other weights; a version never changes")
            return digest
        companions = shape.companions(weights)
        ensure_directory(final.parent)
        staging = temporary_name(final.parent)
        REAL.make_directory(staging)
        metadata = {**shape.metadata(), "policy": str(ref), "weights_hash": digest}
        for name, names in _by_file(weights, shape).items():
            stage_named(staging / name, weights, names, metadata)
        identity = {"format": FORMAT, "name": ref.name, "version": ref.version, "step": step, "weights_hash": digest}
        card = json_bytes(final / CARD, {**identity, **shape.to_json()})
        for name, content in {**companions, **beside, CARD: card}.items():
            stage_pieces(staging / name, [content])
        publish_directory(staging, final, is_synced=True)
        return digest

    @overload
    def load(self, ref: PolicyRef) -> Policy[Any]: ...
    @overload
    def load(self, ref: PolicyRef, kind: type[ShapeT_co]) -> Policy[ShapeT_co]: ...
    def load(self, ref: PolicyRef, kind: type[Any] | None = None) -> Policy[Any]:
        """Load a version, whole and checked against its hash; a shape of another `kind` is a `StorageError`."""
        self.files.fetch(self.path(ref))
        card = self._card(ref)
        shape = self._shape(ref, card)
        if kind is not None and not isinstance(shape, kind):
            raise StorageError(f"{ref} has a {type(shape).__name__} where a {kind.__name__} is needed")
        weights: dict[str, NDArray[Any]] = {}
        if isinstance(shape, LanguageModelShape):
            weights.update(TensorFolder(_tensor_files(self.path(ref), shape)))
        else:
            for path in _tensor_files(self.path(ref), shape):
                weights.update(load_tensors(path))
        _check(self.path(ref), ref, card, weights)
        return Policy(ref=ref, shape=shape, weights=weights, weights_hash=card["weights_hash"], step=int(card["step"]))

    def bring(self, ref: PolicyRef) -> Path:
        """Have a version here without reading its weights: its folder, if that has every file whole.

        Raises:
            StorageError: there is no such version, or a file of it is gone, cut or no safetensors.
        """
        self.files.fetch(self.path(ref))
        for name in self.shape(ref).tensor_files():
            check_tensor_file(self.path(ref) / name)
        return self.path(ref)

    def tensor_paths(self, ref: PolicyRef) -> list[Path]:
        """The files that hold a version's weights, on this machine."""
        self.files.fetch(self.path(ref))
        return _tensor_files(self.path(ref), self.shape(ref))

    def weights_hash(self, ref: PolicyRef) -> str:
        """The hash in a version's card; the weights themselves are not read."""
        return str(self._card(ref)["weights_hash"])

    def problem(self, ref: PolicyRef, weights: Mapping[str, NDArray[Any]] | None = None) -> str:
        """Why a version on disk cannot be used, or does not have these weights; nothing if it can, and has."""
        try:
            digest, shape = self._verify(ref)
        except (StorageError, OSError) as error:
            return str(error)
        is_same = weights is None or digest == tensors_hash(_as_published(weights, shape))
        return "" if is_same else "it has other weights"

    def _verify(self, ref: PolicyRef) -> tuple[str, AnyShape]:
        """Hash and shape of a version that is whole; of a language model, with one tensor at a time in memory."""
        shape = self.shape(ref)
        if not isinstance(shape, LanguageModelShape):
            return self.load(ref).weights_hash, shape
        digest = self.weights_hash(ref)
        _check(self.path(ref), ref, self._card(ref), TensorFolder(_tensor_files(self.path(ref), shape)))
        return digest, shape

    def shape(self, ref: PolicyRef) -> AnyShape:
        """What a version's weights are for; the weights themselves are not read."""
        self.files.fetch(self.path(ref))
        return self._shape(ref, self._card(ref))

    def versions(self, name: str) -> list[PolicyRef]:
        """All published versions of a policy, oldest first."""
        numbers = sorted(int(folder) for folder in self.files.folders(self._directory / name) if folder.isdigit())
        refs = [PolicyRef(name=PolicyName(name), version=PolicyVersion(number)) for number in numbers]
        return [ref for ref in refs if self.files.is_remote or self.has(ref)]

    def names(self) -> list[str]:
        """Policies that have at least one published version."""
        return [name for name in self.files.folders(self._directory) if self.versions(name)]

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

    def _shape(self, ref: PolicyRef, card: Mapping[str, Any]) -> AnyShape:
        try:
            return shape_from_json(card)
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptRecord(f"{self.path(ref) / CARD} does not say what the weights are for: {error}") from error


def _by_file(weights: Mapping[str, NDArray[Any]], shape: AnyShape) -> dict[str, list[str]]:
    files: dict[str, list[str]] = {name: [] for name in shape.tensor_files()}
    for name in weights:
        if shape.file_of(name) not in files:
            raise StorageError(f"a policy of this shape has no place for the tensor {name!r}")
        files[shape.file_of(name)].append(name)
    return files


def _tensor_files(folder: Path, shape: AnyShape) -> list[Path]:
    return [folder / name for name in shape.tensor_files()]


def _check(folder: Path, ref: PolicyRef, card: Mapping[str, Any], weights: Mapping[str, NDArray[Any]]) -> None:
    """Raise CorruptRecord unless a folder holds this version with the weights of its card."""
    if card["version"] != ref.version:
        raise CorruptRecord(f"{folder} holds version {card['version']}")
    if tensors_hash(weights) != card["weights_hash"]:
        raise CorruptRecord(f"{folder}: the weights do not match the hash in their {CARD}")


def _as_published(weights: Mapping[str, NDArray[Any]], shape: AnyShape) -> Mapping[str, NDArray[Any]]:
    return shape.as_published(weights) if isinstance(shape, LanguageModelShape) else weights


def as_numpy(weights: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Device arrays by name as NumPy arrays by name."""
    return {name: np.asarray(tensor) for name, tensor in weights.items()}


def choose_policy(run: RunDirectory, config: RunConfig, text: str | None) -> PolicyRef:
    """The version that the user named (`main@12` or `12`), or the newest."""
    store = PolicyStore(run.policies)
    names = [config.policy.name, *store.names()]  # of a population, agents may have other names
    versions = next((found for name in names if (found := store.versions(name))), [])
    if not versions:
        raise ConfigError(f"{run.path} has published no policy yet")
    if text is None:
        return versions[-1]
    try:
        wanted = PolicyRef.parse(f"{config.policy.name}@{text}" if text.isdigit() else text)
    except ValueError:
        raise ConfigError(f"policy {text}: expected a version such as {versions[-1]}") from None
    if not store.has(wanted):
        raise ConfigError(f"no policy {wanted} in {run.path}; there are: {', '.join(map(str, versions))}")
    return wanted
