"""Where a language model is trained: what is there is found, what is not is refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from ludus.cli.app import app
from ludus.errors import ConfigError
from ludus.lm.devices import find_device

without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@without_gpu
def test_auto_is_the_cpu_where_there_is_no_gpu() -> None:
    assert find_device("auto", rank=3) == torch.device("cpu")


@without_gpu
def test_a_gpu_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"train\.device: there is no cuda:1 here \(.+\); write cpu, or auto"):
        find_device("cuda:1")


def test_trainers_of_a_machine_have_a_gpu_each(two_gpus: None) -> None:
    assert [find_device("auto", rank=rank).index for rank in range(2)] == [0, 1]
    assert find_device("cuda", rank=1) == torch.device("cuda", 1)
    assert find_device("cpu") == torch.device("cpu")


def test_a_gpu_beyond_the_last_is_refused_with_those_there_are(two_gpus: None) -> None:
    assert find_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(ConfigError, match="there is no cuda:2 here; there is cuda:0 to cuda:1"):
        find_device("cuda:2")


@without_gpu
def test_check_refuses_a_device_that_is_not_there() -> None:
    example = Path(__file__).parents[2] / "examples" / "llm" / "tictactoe.yaml"
    found = CliRunner().invoke(app, ["check", str(example), "train.device=cuda"])
    assert found.exit_code == 2
    assert found.output.count("there is no cuda here") == 1
    assert "Traceback" not in found.output
