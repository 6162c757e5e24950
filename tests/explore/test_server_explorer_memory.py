"""An explorer with vLLM has the model's tokenizer and none of its weights, whatever the model."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import resource, sys
from pathlib import Path

from ludus.config import build_config, resolve
from ludus.explore.messages import Setup
from ludus.explore.runners.text_building import build_language_runner
from ludus.lm.language_shape import LanguageModelShape
from ludus.policies import PolicyStore
from ludus.runtime import Pulse

VALUES = {
    "name": "x",
    "tasks": ["ludus/arithmetic?digits=1&ops=+&count=64"],
    "rewards": [{"kind": "numeric"}],
    "policy": {"model": {"path": sys.argv[1], "lora": None}},
    "explore": {"engine": {"kind": "vllm", "servers": 1}, "group": 4},
    "train": {"algorithm": {"preset": "ppo"}},
}
config = resolve(build_config(VALUES, []))
shape = LanguageModelShape(model=config.policy.model, critic=True, games=())
setup = Setup(run="r", config="", shape=shape.to_json(), slots=8)
runner = build_language_runner(setup, config, Pulse(), PolicyStore(Path("policies")), has_servers=True)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
MOST_MB = 600


@pytest.mark.slow
def test_it_takes_less_than_600_mb(tmp_path: Path) -> None:
    from ludus.lm.tiny_model import make_tiny_model

    model = make_tiny_model(tmp_path / "model", layers=2, width=16, heads=2, kv_heads=1)
    (model / "model.safetensors").write_bytes(b"none")  # whoever reads weights fails
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(model)], capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[-1]) < MOST_MB
