"""A run keeps the teacher that it began with, whatever becomes of the run that the teacher is from."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from ludus.config import LanguageModelConfig, LoraConfig, RunConfig, build_config, dump_config
from ludus.errors import ConfigError
from ludus.lm.language_shape import LanguageModelShape
from ludus.lm.tiny_model import make_tiny_model
from ludus.orchestrator.policy_start import check_teacher, keep_teacher
from ludus.policies import PolicyStore
from ludus.records import PolicyName, PolicyRef, PolicyVersion
from ludus.storage.run_directory import RunDirectory

LORA = LoraConfig(rank=2)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_tiny_model(tmp_path_factory.mktemp("model") / "tiny", layers=1, width=16, heads=2, kv_heads=1))


def config(model: str, teacher: object) -> RunConfig:
    policy = {"model": {"path": model}, "teacher": teacher}
    return build_config({"name": "x", "games": ["open_spiel:tic_tac_toe"], "policy": policy})


def publish(run: RunDirectory, model: str, version: int, lora: LoraConfig | None = LORA) -> Path:
    """Another run with a version of its policy."""
    if not run.is_run():
        run.prepare()
        run.create(dump_config(config(model, None)))
    shape = LanguageModelShape(model=LanguageModelConfig(path=model, lora=lora), critic=False, games=())
    ref = PolicyRef(name=PolicyName("main"), version=PolicyVersion(version))
    store = PolicyStore(run.policies)
    store.publish(ref, {"base_model.model.x.lora_A.weight": np.full(3, version, np.float32)}, shape, step=0)
    return store.path(ref)


def test_a_model_is_its_own_teacher(model: str, tmp_path: Path) -> None:
    found = keep_teacher(config(model, {"path": "ludus/mini", "dtype": "bfloat16"}), RunDirectory(tmp_path / "run"))
    assert found is not None
    assert (found.model.path, found.model.lora, found.model.dtype, found.adapter) == (
        "ludus/mini",
        None,
        "bfloat16",
        "",
    )
    assert keep_teacher(config(model, None), RunDirectory(tmp_path / "run")) is None


def test_the_newest_version_of_a_run_is_kept_through_all_that_happens_there(model: str, tmp_path: Path) -> None:
    theirs, mine = RunDirectory(tmp_path / "theirs"), RunDirectory(tmp_path / "mine")
    publish(theirs, model, 1)
    source = publish(theirs, model, 2)
    wanted = config(model, {"run": str(theirs.path)})
    check_teacher(wanted, mine)
    found = keep_teacher(wanted, mine)
    assert found is not None
    assert (found.model.path, found.model.lora) == (model, LORA)
    content = {file.name: file.read_bytes() for file in source.iterdir()}
    publish(theirs, model, 3)
    assert keep_teacher(wanted, mine) == found
    shutil.rmtree(theirs.path)
    check_teacher(wanted, mine)
    assert keep_teacher(wanted, mine) == found
    assert {file.name: file.read_bytes() for file in Path(found.adapter).iterdir()} == content


def test_a_version_with_all_parameters_is_a_model(model: str, tmp_path: Path) -> None:
    theirs = RunDirectory(tmp_path / "theirs")
    publish(theirs, model, 4, lora=None)
    publish(theirs, model, 5, lora=None)
    found = keep_teacher(config(model, {"run": f"{theirs.path}@4"}), RunDirectory(tmp_path / "mine"))
    assert found is not None
    assert found.adapter == ""
    assert found.model.path == str(tmp_path / "mine" / "teacher" / "main" / "00000004")


def test_what_is_not_there_is_named(model: str, tmp_path: Path) -> None:
    theirs = RunDirectory(tmp_path / "theirs")
    publish(theirs, model, 1)
    for teacher, problem in (
        ({"run": "nowhere"}, r"policy\.teacher\.run: nowhere is not a run"),
        ({"run": f"{theirs.path}@7"}, r"policy\.teacher\.run: .* has no version 7 of main"),
        ({"path": "no/such/model"}, r"policy\.teacher: no model folder no/such/model"),
    ):
        with pytest.raises(ConfigError, match=problem):
            check_teacher(config(model, teacher), RunDirectory(tmp_path / "mine"))
