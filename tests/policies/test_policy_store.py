"""Published versions: whole, unchanging, found again, and refused when damaged."""

from pathlib import Path

import numpy as np
import pytest

from ludus.config import MlpConfig, ResNetConfig
from ludus.errors import ConfigError, CorruptRecord, StorageError
from ludus.policies import PolicyShape, PolicyStore
from ludus.policies.export import export_policy
from ludus.records import PolicyName, PolicyRef, PolicyVersion

SHAPE = PolicyShape(
    network=MlpConfig(hidden=(4,)), observation_shape=(3,), actions=2, layout="channels_last", games=("g",)
)


def ref(version: int) -> PolicyRef:
    return PolicyRef(name=PolicyName("main"), version=PolicyVersion(version))


def weights(value: float) -> dict[str, np.ndarray]:
    return {"torso.0.kernel": np.full((3, 4), value, np.float32)}


@pytest.fixture
def store(tmp_path: Path) -> PolicyStore:
    made = PolicyStore(tmp_path / "policies")
    for version in range(4):
        made.publish(ref(version), weights(version), SHAPE, step=version * 10)
    return made


def test_a_version_loads_as_it_was_published(store: PolicyStore) -> None:
    policy = store.load(ref(2))
    assert policy.step == 20
    assert policy.shape == SHAPE
    assert np.array_equal(policy.weights["torso.0.kernel"], weights(2)["torso.0.kernel"])


def test_publishing_again_is_a_no_op_and_other_weights_are_refused(store: PolicyStore) -> None:
    digest = store.load(ref(1)).weights_hash
    assert store.publish(ref(1), weights(1), SHAPE, step=10) == digest
    with pytest.raises(StorageError, match="never changes"):
        store.publish(ref(1), weights(9), SHAPE, step=10)
    assert store.load(ref(1)).weights_hash == digest


def test_a_half_written_version_is_not_a_version(store: PolicyStore) -> None:
    store.path(ref(7)).mkdir()
    (store.path(ref(7)) / "weights.safetensors").write_bytes(b"half")
    assert [found.version for found in store.versions("main")] == [0, 1, 2, 3]


def test_an_unknown_version_names_those_that_are_there(store: PolicyStore) -> None:
    with pytest.raises(StorageError, match="main@3"):
        store.load(ref(9))


@pytest.mark.parametrize("name", ["weights.safetensors", "policy.json"])
def test_a_damaged_version_is_never_played(store: PolicyStore, name: str) -> None:
    path = store.path(ref(2)) / name
    content = bytearray(path.read_bytes())
    content[-8] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(CorruptRecord):
        store.load(ref(2))


def test_pruning_keeps_what_is_named_and_the_newest(store: PolicyStore) -> None:
    assert store.prune("main", [ref(1)]) == [ref(0), ref(2)]
    assert store.versions("main") == [ref(1), ref(3)]


def test_an_export_replaces_only_exports_and_only_when_asked(store: PolicyStore, tmp_path: Path) -> None:
    target = tmp_path / "out" / "net"
    export_policy(store, ref(3), target)
    with pytest.raises(ConfigError, match="--force"):
        export_policy(store, ref(2), target)
    assert export_policy(store, ref(2), target, replace=True).ref == ref(2)
    (tmp_path / "precious").mkdir()
    with pytest.raises(ConfigError, match="not an exported policy"):
        export_policy(store, ref(2), tmp_path / "precious", replace=True)


@pytest.mark.parametrize("network", [MlpConfig(hidden=(7, 5), activation="tanh"), ResNetConfig(channels=3, blocks=1)])
def test_a_shape_survives_json(network: MlpConfig | ResNetConfig) -> None:
    shape = PolicyShape(
        network=network, observation_shape=(2, 3, 3), actions=9, layout="channels_first", games=("a", "b")
    )
    assert PolicyShape.from_json(shape.to_json()) == shape
