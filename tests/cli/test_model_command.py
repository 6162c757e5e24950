"""`ludus model`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ludus.cli.app import app
from ludus.errors import ConfigError

SMALL = ("--layers", "1", "--width", "16", "--context", "64")


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["model", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def test_a_model_is_made_and_shown(tmp_path: Path) -> None:
    folder = str(tmp_path / "tiny")
    assert run("make", folder, *SMALL) == f"written: {folder}  (ludus model show {folder})\n"
    shown = json.loads(run("show", folder, "--json"))
    assert shown == {
        "model": folder,
        "architecture": "Qwen3ForCausalLM",
        "parameters": 7272,
        "layers": 1,
        "width": 16,
        "vocabulary": 259,
        "context": 64,
        "linear_layers": 7,
        "lora_rank_16": 4864,
        "stop_tokens": ["<|im_end|>"],
        "conversation": "<|im_start|>sThe rules.<|im_end|><|im_start|>uYour move?<|im_end|><|im_start|>a",
    }
    lines = run("show", folder).splitlines()
    assert "parameters          7,272" in lines
    assert len(lines) == len(shown)


def test_another_model_in_the_same_folder_is_bad_input(tmp_path: Path) -> None:
    run("make", str(tmp_path / "m"), *SMALL)
    with pytest.raises(ConfigError, match="holds another model already"):
        run("make", str(tmp_path / "m"), *SMALL, "--seed", "1")


def test_what_cannot_be_used_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no config.json in it"):
        run("show", str(tmp_path))


def test_an_unknown_model_to_fetch_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no model 'gpt5' to fetch; there are: smollm2"):
        run("fetch", "gpt5", str(tmp_path / "m"))


def test_a_model_is_fetched_to_where_configs_find_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cached = tmp_path / "ludus" / "models" / "smollm2"
    run("make", str(cached), *SMALL)  # stands for one that was fetched earlier
    assert run("fetch", "smollm2") == f"written: {cached}  (ludus model show ludus/smollm2)\n"
    assert "context             64" in run("show", "ludus/smollm2")


@pytest.mark.parametrize("command", ["make", "fetch", "show"])
def test_help_has_an_example(command: str) -> None:
    assert f"Example: ludus model {command}" in run(command, "--help")


def test_importing_the_command_is_light() -> None:
    heavy = ("torch", "transformers", "huggingface_hub", "jax", "numpy")
    program = f"import sys, ludus.cli.model; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
