"""Which name leads to which folder, and that finding one is light."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ludus.lm.model_folder import BUILT_IN, find_model_folder, lasting_name


def test_the_built_in_model_is_made_when_it_is_first_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = find_model_folder("ludus/tiny")
    written = (folder / "model.safetensors").stat().st_mtime_ns
    assert folder == tmp_path / "ludus" / "models" / "tiny"
    assert find_model_folder("ludus/tiny") == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == written
    assert lasting_name("ludus/tiny") == str(folder)


def test_a_fetched_model_is_found_without_a_network(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cached = tmp_path / "ludus" / "models" / "smollm2"
    cached.parent.mkdir(parents=True)
    copy.rename(cached)
    assert find_model_folder("ludus/smollm2") == cached


def test_a_folder_is_called_by_its_whole_name_and_a_hub_model_by_its_id(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tiny.parent)
    assert find_model_folder("tiny") == Path("tiny")
    assert lasting_name("tiny") == str(tiny.resolve())
    assert lasting_name("Qwen/Qwen3-0.6B") == "Qwen/Qwen3-0.6B"


def test_built_in_names_look_like_hub_ids_of_ludus() -> None:
    assert all(name.startswith("ludus/") for name in BUILT_IN)


def test_finding_a_model_and_publishing_a_policy_need_no_pytorch(tiny: Path) -> None:
    program = (
        "import sys; from ludus.policies import PolicyStore, LanguageModelShape; "
        "from ludus.lm.model_folder import find_model_folder; from ludus.lm.adapters import A; "
        f"find_model_folder({str(tiny)!r}); print([m for m in ('torch', 'transformers', 'peft') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
